"""The Temporal Schedules of a namespace: what runs every few minutes by itself.

They stand in Temporal alone: its UI shows them, pauses them and triggers them. Installing again
brings them up to date and leaves a pause as it is.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from temporalio.client import (
    Client,
    Schedule,
    ScheduleActionStartWorkflow,
    ScheduleAlreadyRunningError,
    ScheduleIntervalSpec,
    ScheduleOverlapPolicy,
    SchedulePolicy,
    ScheduleSpec,
    ScheduleState,
    ScheduleUpdate,
    ScheduleUpdateInput,
)
from temporalio.common import SearchAttributeKey, SearchAttributePair, TypedSearchAttributes
from temporalio.service import RPCError, RPCStatusCode

from muster.client.failures import coded
from muster.domain.contracts import Placement, ReapInput, ReconcileInput, Workflows
from muster.domain.identifiers import reconcile_workflow_id
from muster.domain.search_attributes import NAMESPACE

EVERY = timedelta(minutes=5)
"""How often a namespace's sessions are looked at."""

CATCH_UP = timedelta(minutes=1)
"""A look that was missed for longer, because the server was down, isn't made up for."""


def namespace_schedules(namespace: str, placement: Placement) -> dict[str, Schedule]:
    """The schedules of a namespace by their ids."""
    return {
        reconcile_workflow_id(namespace): _schedule(
            Workflows.RECONCILE_SESSIONS,
            ReconcileInput(namespace_id=namespace, placement=placement),
            reconcile_workflow_id(namespace),
            placement,
            f"nudges sessions of {namespace} whose work nobody does",
        ),
        f"reap/{namespace}": _schedule(
            Workflows.REAP_IDLE_SESSIONS,
            ReapInput(namespace_id=namespace, placement=placement),
            f"reap/{namespace}",
            placement,
            f"closes sessions of {namespace} that have been idle for longer than they may",
        ),
    }


async def install_schedules(
    client: Client, namespace: str, placement: Placement
) -> list[str] | None:
    """Create a namespace's schedules, or bring them up to date.

    Returns:
        Their ids; None if the server has no schedules.

    Raises:
        MusterError: The server doesn't answer or refuses.
    """
    wanted = namespace_schedules(namespace, placement)
    try:
        for name, schedule in wanted.items():
            await _install(client, name, schedule)
    except RPCError as error:
        # The time-skipping test server.
        if error.status is RPCStatusCode.UNIMPLEMENTED:
            return None
        raise coded(error) from error
    return list(wanted)


async def _install(client: Client, name: str, wanted: Schedule) -> None:
    def updated(found: ScheduleUpdateInput) -> ScheduleUpdate:
        state = found.description.schedule.state
        return ScheduleUpdate(replace(wanted, state=state))

    try:
        await client.create_schedule(name, wanted)
    except ScheduleAlreadyRunningError:
        await client.get_schedule_handle(name).update(updated)


def _schedule(
    workflow: Workflows,
    given: ReconcileInput | ReapInput,
    workflow_id: str,
    placement: Placement,
    note: str,
) -> Schedule:
    attribute = SearchAttributePair(SearchAttributeKey.for_keyword(NAMESPACE), given.namespace_id)
    return Schedule(
        action=ScheduleActionStartWorkflow(
            workflow,
            given,
            id=workflow_id,
            task_queue=placement.root_queue,
            static_summary=note,
            typed_search_attributes=TypedSearchAttributes([attribute]),
        ),
        spec=ScheduleSpec(intervals=[ScheduleIntervalSpec(every=EVERY)]),
        policy=SchedulePolicy(overlap=ScheduleOverlapPolicy.SKIP, catchup_window=CATCH_UP),
        state=ScheduleState(note=note),
    )
