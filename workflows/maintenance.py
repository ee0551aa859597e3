"""`ReconcileSessions`, `ReapIdleSessions`, `RepairSession` and `ReadHistory`: looking after."""

from __future__ import annotations

from temporalio import workflow
from temporalio.exceptions import WorkflowAlreadyStartedError
from temporalio.workflow import ParentClosePolicy

with workflow.unsafe.imports_passed_through():
    from muster.domain.closing import CloseCommand
    from muster.domain.contract import timestamp
    from muster.domain.contracts import (
        Activities,
        CloseInput,
        FindIdle,
        HistoryPage,
        HistoryRequest,
        IdleSessions,
        ReapInput,
        ReconciledPage,
        ReconcileInput,
        ReconcilePage,
        ReconcileTotals,
        RepairAnswer,
        RepairInput,
        Workflows,
    )
    from muster.domain.identifiers import close_workflow_id
    from muster.workflows import policies
    from muster.workflows.attributes import details_table

PAGES_A_RUN = 50
"""Pages of a reconciliation before it continues as new."""


@workflow.defn(name=Workflows.RECONCILE_SESSIONS)
class ReconcileSessions:
    """Looks at every session of a namespace for work that its workflow isn't doing."""

    @workflow.run
    async def run(self, given: ReconcileInput) -> ReconcileTotals:
        """Return what was seen and done."""
        after, totals, pages = given.after, given.totals, 0
        while True:
            if pages == PAGES_A_RUN:
                workflow.continue_as_new(
                    given.model_copy(update={"after": after, "totals": totals})
                )
            pages += 1
            page: ReconciledPage = await workflow.execute_activity(
                Activities.RECONCILE_PAGE,
                ReconcilePage(
                    namespace_id=given.namespace_id, placement=given.placement, after=after
                ),
                result_type=ReconciledPage,
                summary=f"sessions after {after}" if after else "the first sessions",
                **policies.MAINTENANCE,
            )
            totals = _sum(totals, page.totals)
            workflow.set_current_details(
                details_table(
                    {
                        "namespace": given.namespace_id,
                        "seen": totals.seen,
                        "nudged": totals.nudged,
                        "need repair": totals.needs_repair,
                        "of these": ", ".join(totals.session_ids),
                    }
                )
            )
            if page.next_after is None:
                return totals
            after = page.next_after


@workflow.defn(name=Workflows.REAP_IDLE_SESSIONS)
class ReapIdleSessions:
    """Closes the sessions of a namespace that have been idle for longer than they may."""

    @workflow.run
    async def run(self, given: ReapInput) -> int:
        """Return how many closes were begun; each goes on by itself."""
        after, seen, closed, pages = given.after, given.seen, given.closed, 0
        while True:
            if pages == PAGES_A_RUN:
                workflow.continue_as_new(
                    given.model_copy(update={"after": after, "seen": seen, "closed": closed})
                )
            pages += 1
            page: IdleSessions = await workflow.execute_activity(
                Activities.FIND_IDLE_SESSIONS,
                FindIdle(
                    namespace_id=given.namespace_id,
                    now=timestamp(workflow.now()),
                    after=after,
                ),
                result_type=IdleSessions,
                summary=f"sessions after {after}" if after else "the first sessions",
                **policies.MAINTENANCE,
            )
            for command in page.closes:
                closed += await self._begin_close(given, command)
            seen += page.seen
            workflow.set_current_details(
                details_table({"namespace": given.namespace_id, "seen": seen, "closed": closed})
            )
            if page.next_after is None:
                return closed
            after = page.next_after

    async def _begin_close(self, given: ReapInput, command: CloseCommand) -> int:
        """Start the close; one that runs already is somebody's own."""
        try:
            await workflow.start_child_workflow(
                Workflows.CLOSE_SESSION,
                CloseInput(command=command, placement=given.placement),
                id=close_workflow_id(command.namespace_id, command.session_id, command.incarnation),
                parent_close_policy=ParentClosePolicy.ABANDON,
                priority=policies.MAINTENANCE_PRIORITY,
                static_summary=f"close idle session {command.session_id}",
            )
        except WorkflowAlreadyStartedError:
            return 0
        return 1


@workflow.defn(name=Workflows.REPAIR_SESSION)
class RepairSession:
    """Rebuilds what can be rebuilt of one session, and says what can't."""

    @workflow.run
    async def run(self, given: RepairInput) -> RepairAnswer:
        """Return what was found and done, or fail with the coded reason."""
        answer: RepairAnswer = await workflow.execute_activity(
            Activities.REPAIR_SESSION,
            given,
            result_type=RepairAnswer,
            summary=f"repair {given.session_id}",
            **policies.MAINTENANCE,
        )
        return answer


@workflow.defn(name=Workflows.READ_HISTORY)
class ReadHistory:
    """Reads a page of the turns that left a session's document."""

    @workflow.run
    async def run(self, given: HistoryRequest) -> HistoryPage:
        """Return the page."""
        page: HistoryPage = await workflow.execute_local_activity(
            Activities.READ_HISTORY,
            given,
            result_type=HistoryPage,
            summary="read the archive",
            **policies.COMMIT,
        )
        return page


def _sum(one: ReconcileTotals, two: ReconcileTotals) -> ReconcileTotals:
    return ReconcileTotals(
        seen=one.seen + two.seen,
        nudged=one.nudged + two.nudged,
        needs_repair=one.needs_repair + two.needs_repair,
        session_ids=(*one.session_ids, *two.session_ids)[:20],
    )
