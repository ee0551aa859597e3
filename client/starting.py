"""How the workflows that a client starts are started: the id is the lock, the queue the place."""

from __future__ import annotations

from temporalio.client import WithStartWorkflowOperation
from temporalio.common import WorkflowIDConflictPolicy, WorkflowIDReusePolicy

from muster.domain.closing import CloseCommand
from muster.domain.contracts import CloseInput, CreateInput, Placement, Workflows
from muster.domain.creation import CreateCommand
from muster.domain.identifiers import close_workflow_id, create_workflow_id

Start = WithStartWorkflowOperation[object, object]
"""An operation serves one call; a repeat needs a new one."""


def creation_start(command: CreateCommand, placement: Placement) -> Start:
    """Start the one creation under this key, or find it, or let the receipt answer."""
    return WithStartWorkflowOperation(
        Workflows.CREATE_SESSION,
        CreateInput(command=command, placement=placement),
        id=create_workflow_id(command.namespace_id, command.key_digest),
        task_queue=placement.root_queue,
        id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
        id_reuse_policy=WorkflowIDReusePolicy.ALLOW_DUPLICATE,
        static_summary=f"create session {command.session_id}",
    )


def closing_start(command: CloseCommand, placement: Placement) -> Start:
    """Start the one close of this incarnation, or find it, or let the tombstone answer."""
    return WithStartWorkflowOperation(
        Workflows.CLOSE_SESSION,
        CloseInput(command=command, placement=placement),
        id=close_workflow_id(command.namespace_id, command.session_id, command.incarnation),
        task_queue=placement.root_queue,
        id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
        id_reuse_policy=WorkflowIDReusePolicy.ALLOW_DUPLICATE,
        static_summary=f"close session {command.session_id}",
    )
