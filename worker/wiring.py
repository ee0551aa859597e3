"""Puts stores, runtimes, activities and workflows together."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pydantic
from temporalio.client import Client
from temporalio.common import VersioningBehavior, WorkerDeploymentVersion
from temporalio.worker import Worker, WorkerDeploymentConfig
from temporalio.worker.workflow_sandbox import SandboxedWorkflowRunner, SandboxRestrictions

from muster.activities.closing import ClosingActivities
from muster.activities.creation import CreationActivities
from muster.activities.maintenance import MaintenanceActivities
from muster.activities.publishing import EventPublisher
from muster.activities.runtime import RuntimeActivities
from muster.activities.sessions import SessionActivities
from muster.domain.identifiers import root_task_queue, runtime_task_queue
from muster.domain.runtime import RuntimeKind
from muster.runtimes.acp.adapter import AcpRuntime
from muster.runtimes.protocol import AgentRuntime
from muster.stores.documents.connection import Mongo
from muster.stores.documents.content import Contents
from muster.stores.documents.public_events import PublicEvents
from muster.stores.documents.sessions import SessionSummaries
from muster.stores.files.archive import ArchiveStore
from muster.stores.files.journals import Journals
from muster.stores.files.private import PrivateTree
from muster.stores.files.projections import ProjectionStore
from muster.stores.files.receipts import ReceiptStore
from muster.stores.files.sessions import SessionStore
from muster.worker.settings import WorkerSettings
from muster.workflows.close_session import CloseSession
from muster.workflows.create_session import CreateSession
from muster.workflows.maintenance import (
    ReadHistory,
    ReapIdleSessions,
    ReconcileSessions,
    RepairSession,
)
from muster.workflows.session import Session

WORKFLOWS: tuple[type, ...] = (
    CreateSession,
    Session,
    CloseSession,
    ReconcileSessions,
    ReapIdleSessions,
    RepairSession,
    ReadHistory,
)
"""Every workflow type that a root's worker runs."""

STICKY_TIMEOUT = timedelta(seconds=1)
"""How long a workflow waits for the worker that died with its cache; chosen for recovery."""

HEARTBEAT_THROTTLE = timedelta(seconds=1)
"""Heartbeats reach the server at this interval, so that a cancel is heard as soon."""

FOLLOWED_AT_ONCE = 1_000
"""Activities of the runtime role: each active turn holds one, and it only waits."""


@dataclass(frozen=True)
class Parts:
    """The activities of one worker process."""

    root: Sequence[Callable[..., Any]]
    runtime: Sequence[Callable[..., Any]]
    close: Callable[[], None]
    """Lets go of open files; for when no activity runs any more."""


def assemble(
    settings: WorkerSettings,
    mongo: Mongo,
    runtimes: Mapping[RuntimeKind, AgentRuntime] | None = None,
) -> Parts:
    """Build the stores on the state root and MongoDB, and the activities on them.

    Args:
        runtimes: Adapters to use instead of Muster's own.
    """
    tree = PrivateTree(settings.state_root)
    archive = ArchiveStore(tree)
    sessions = SessionStore(tree, archive)
    projections = ProjectionStore(tree)
    receipts = ReceiptStore(tree)
    summaries = SessionSummaries(mongo)
    journals = Journals(tree)
    publisher = EventPublisher(sessions, journals, PublicEvents(mongo), projections, summaries)
    creation = CreationActivities(receipts, sessions, summaries)
    session = SessionActivities(sessions, publisher, summaries)
    maintenance = MaintenanceActivities(sessions, receipts, projections, archive, summaries)
    closing = ClosingActivities(receipts, sessions, publisher, summaries)
    if runtimes is None:
        runtimes = {RuntimeKind.ACP: AcpRuntime(settings.state_root)}
    runtime = RuntimeActivities(runtimes, sessions, Contents(mongo), publisher)
    return Parts(
        root=(
            creation.claim,
            creation.record,
            creation.fail,
            creation.complete,
            creation.mark_uncertain,
            session.open,
            session.commit,
            session.publish,
            closing.request_close,
            closing.finish_session,
            closing.remove_session,
            closing.mark_uncertain,
            maintenance.reconcile_page,
            maintenance.repair,
            maintenance.find_idle,
            maintenance.read_history,
        ),
        runtime=(
            runtime.launch,
            runtime.adopt_launch,
            runtime.end_launch,
            runtime.deliver,
            runtime.follow,
            runtime.answer,
            runtime.interrupt,
            runtime.close,
        ),
        close=journals.close,
    )


def deployment_config(settings: WorkerSettings) -> WorkerDeploymentConfig | None:
    """Worker versioning, if the settings name a deployment."""
    if settings.deployment is None:
        return None
    name, build = settings.deployment.split(".")
    return WorkerDeploymentConfig(
        version=WorkerDeploymentVersion(deployment_name=name, build_id=build),
        use_worker_versioning=True,
        default_versioning_behavior=VersioningBehavior.PINNED,
    )


def workflow_runner(*modules: str) -> SandboxedWorkflowRunner:
    """The SDK's sandbox, in which no workflow imports Muster's modules anew.

    They hold no state, and importing them took longer than anything else at a workflow's start.
    What the sandbox forbids to them is seen by the replay tests, which leave it whole.

    Args:
        modules: Others of which the same is true.
    """
    restrictions = SandboxRestrictions.default.with_passthrough_modules("muster", *modules)
    return SandboxedWorkflowRunner(restrictions=restrictions)


def build_workers(client: Client, settings: WorkerSettings, parts: Parts) -> list[Worker]:
    """The workers for the settings' roles, not running yet."""
    workers = []
    if "root" in settings.roles:
        workers.append(
            Worker(
                client,
                task_queue=root_task_queue(settings.root),
                workflows=WORKFLOWS,
                activities=parts.root,
                max_cached_workflows=settings.cached_workflows,
                sticky_queue_schedule_to_start_timeout=STICKY_TIMEOUT,
                max_heartbeat_throttle_interval=HEARTBEAT_THROTTLE,
                graceful_shutdown_timeout=settings.graceful_shutdown_timeout,
                max_concurrent_local_activities=settings.max_threads // 2,
                max_concurrent_activities=settings.max_threads // 2,
                workflow_runner=workflow_runner(),
                workflow_failure_exception_types=[pydantic.ValidationError],
                deployment_config=deployment_config(settings),
            )
        )
    if "runtime" in settings.roles:
        workers.append(
            Worker(
                client,
                task_queue=runtime_task_queue(settings.runtime_host),
                activities=parts.runtime,
                max_heartbeat_throttle_interval=HEARTBEAT_THROTTLE,
                graceful_shutdown_timeout=settings.graceful_shutdown_timeout,
                max_concurrent_activities=FOLLOWED_AT_ONCE,
            )
        )
    return workers
