"""Looking after sessions: repair, archive, reconciliation, and an operator's decisions.

Each is a workflow on the queue of the state root, since only its workers reach the files.
"""

from __future__ import annotations

import uuid
from collections.abc import Awaitable, Callable
from typing import TypeVar

from temporalio.common import (
    SearchAttributeKey,
    SearchAttributePair,
    TypedSearchAttributes,
    WorkflowIDConflictPolicy,
)

from muster.client.client import MusterClient
from muster.client.sending import send
from muster.domain.contract import Contract
from muster.domain.contracts import (
    Decision,
    HistoryPage,
    HistoryRequest,
    ReconcileInput,
    ReconcileTotals,
    RepairAnswer,
    RepairInput,
    ResolveCommand,
    Resolved,
    Updates,
    Workflows,
)
from muster.domain.errors import ResourceGone
from muster.domain.identifiers import (
    check_session_id,
    reconcile_workflow_id,
    repair_workflow_id,
)
from muster.domain.search_attributes import NAMESPACE, SESSION

T = TypeVar("T", bound=Contract)


class SessionCare:
    """What an operator does for the sessions of a client's namespace.

    All methods raise subclasses of `MusterError`.

    Args:
        client: Says where and whose.
    """

    def __init__(self, client: MusterClient) -> None:
        self._client = client
        self._namespace = client.namespace
        self._placement = client.settings.placement

    async def repair(self, session: str, *, within: float | None = None) -> RepairAnswer:
        """Rebuild a lost document, mend the readers' files, and set the session going again.

        May be repeated: with nothing to repair it says so.
        """
        return await self._run(
            Workflows.REPAIR_SESSION,
            RepairInput(
                namespace_id=self._namespace,
                session_id=check_session_id(session),
                placement=self._placement,
            ),
            RepairAnswer,
            workflow_id=repair_workflow_id(self._namespace, session),
            summary=f"repair session {session}",
            session=session,
            within=within,
        )

    async def history(
        self,
        session: str,
        *,
        before: str | None = None,
        limit: int = 20,
        within: float | None = None,
    ) -> HistoryPage:
        """A page of the turns that have left a session's document, newest first.

        Args:
            before: The `next_before` of the page before.
            limit: Turns after which a page ends, with the archive file that it is in.
        """
        return await self._run(
            Workflows.READ_HISTORY,
            HistoryRequest(
                namespace_id=self._namespace,
                session_id=check_session_id(session),
                before=before,
                limit=limit,
            ),
            HistoryPage,
            workflow_id=f"history/{self._namespace}/{session}/{uuid.uuid4()}",
            summary=f"read the archive of session {session}",
            session=session,
            within=within,
        )

    async def reconcile(self, *, within: float | None = None) -> ReconcileTotals:
        """Look at every session now, and nudge those whose work nobody does."""
        return await self._run(
            Workflows.RECONCILE_SESSIONS,
            ReconcileInput(namespace_id=self._namespace, placement=self._placement),
            ReconcileTotals,
            workflow_id=reconcile_workflow_id(self._namespace),
            summary=f"look at the sessions of {self._namespace}",
            within=within,
        )

    async def resolve(
        self,
        session: str,
        decision: Decision,
        *,
        operator: str = "",
        within: float | None = None,
    ) -> Resolved:
        """Say what to do about a creation or a close that nobody can be sure of.

        Raises:
            ResourceGone: Nothing about the session is uncertain.
        """
        waiting = (await self._client.sessions.get(session)).uncertain_workflow
        if waiting is None:
            raise ResourceGone(
                f"nothing about session {session} is uncertain; `muster session show` tells"
            )
        handle = (await self._client.temporal()).get_workflow_handle(waiting)
        command = ResolveCommand(decision=decision, operator=operator)
        # The same id each time it is sent: a repeat hears the first answer.
        update_id = str(uuid.uuid4())

        async def attempt() -> Resolved:
            resolved: Resolved = await handle.execute_update(
                Updates.RESOLVE, command, id=update_id, result_type=Resolved
            )
            return resolved

        return await self._sent(attempt, within, "Look at it with `muster session show`")

    async def _run(
        self,
        workflow: Workflows,
        given: Contract,
        answer: type[T],
        *,
        workflow_id: str,
        summary: str,
        session: str | None = None,
        within: float | None,
    ) -> T:
        """Run a workflow, or wait for the one that runs under its id already."""
        client = await self._client.temporal()

        async def attempt() -> T:
            found: T = await client.execute_workflow(
                workflow,
                given,
                id=workflow_id,
                task_queue=self._placement.root_queue,
                id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
                result_type=answer,
                static_summary=summary,
                search_attributes=_attributes(self._namespace, session),
            )
            return found

        return await self._sent(attempt, within, "Run it again")

    async def _sent(
        self, attempt: Callable[[], Awaitable[T]], within: float | None, repeat: str
    ) -> T:
        return await send(
            await self._client.temporal(),
            attempt,
            queue=self._placement.root_queue,
            within=within or self._client.settings.timeout_seconds,
            repeat=repeat,
        )


def _attributes(namespace: str, session: str | None) -> TypedSearchAttributes:
    keyword = SearchAttributeKey.for_keyword
    found = [SearchAttributePair(keyword(NAMESPACE), namespace)]
    if session is not None:
        found.append(SearchAttributePair(keyword(SESSION), session))
    return TypedSearchAttributes(found)
