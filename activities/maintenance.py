"""Activities that look after sessions: nudge, repair, and read what left a document."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta

from temporalio import activity
from temporalio.client import WorkflowExecutionStatus
from temporalio.common import (
    SearchAttributeKey,
    SearchAttributePair,
    TypedSearchAttributes,
    WorkflowIDConflictPolicy,
    WorkflowIDReusePolicy,
)
from temporalio.service import RPCError, RPCStatusCode

from muster.activities.errors import RETRIED, coded
from muster.activities.heartbeats import heartbeating
from muster.domain.contract import parse_time, timestamp
from muster.domain.contracts import (
    Activities,
    FindIdle,
    HistoryPage,
    HistoryRequest,
    IdleSessions,
    Placement,
    ReconciledPage,
    ReconcilePage,
    ReconcileTotals,
    RepairAnswer,
    RepairInput,
    SessionInput,
    SessionRef,
    Updates,
    Workflows,
)
from muster.domain.control import control_of, has_work
from muster.domain.errors import MusterError, ResourceGone, StateCorrupt
from muster.domain.identifiers import session_workflow_id
from muster.domain.projection import rebuild
from muster.domain.reaping import idle_close
from muster.domain.search_attributes import ACTIVITY_AT, NAMESPACE, SESSION, STATUS
from muster.domain.session_document import SessionDocument
from muster.domain.session_rules import check_document
from muster.domain.summaries import summary_of
from muster.domain.turn_model import Turn
from muster.domain.view import TurnView, turn_view, view_of
from muster.stores.documents.sessions import SessionSummaries
from muster.stores.files.archive import ArchiveStore
from muster.stores.files.projections import ProjectionStore
from muster.stores.files.receipts import ReceiptStore
from muster.stores.files.sessions import SessionStore

SESSION_TASK_TIMEOUT = timedelta(seconds=3)
"""As a creation gives its session; see `workflows/policies.py`."""

NAMED_SESSIONS = 20
"""How many session ids a reconciliation names."""


class MaintenanceActivities:
    """What `ReconcileSessions`, `RepairSession` and `ReadHistory` do.

    Args:
        sessions: Session documents.
        receipts: Creation receipts, tombstones and keys.
        projections: The readers' files.
        archive: What compaction took out.
        summaries: The list that readers see.
    """

    def __init__(
        self,
        sessions: SessionStore,
        receipts: ReceiptStore,
        projections: ProjectionStore,
        archive: ArchiveStore,
        summaries: SessionSummaries,
    ) -> None:
        self._sessions = sessions
        self._receipts = receipts
        self._projections = projections
        self._archive = archive
        self._summaries = summaries

    @activity.defn(name=Activities.RECONCILE_PAGE)
    @coded
    async def reconcile_page(self, request: ReconcilePage) -> ReconciledPage:
        """Nudge the sessions whose documents show work that no workflow does.

        The first page also removes what writers that died left unfinished.

        Nudging is harmless: a workflow that does its work reads its document once more.
        """
        page, next_after = await asyncio.to_thread(
            self._page, request.namespace_id, request.after, request.limit
        )
        totals = ReconcileTotals(seen=len(page))
        async with heartbeating():
            if not request.after:
                await asyncio.to_thread(self._receipts.sweep, request.namespace_id)
            for session_id in page:
                totals = await self._reconcile(request, session_id, totals)
        return ReconciledPage(totals=totals, next_after=next_after)

    async def _reconcile(
        self, request: ReconcilePage, session_id: str, totals: ReconcileTotals
    ) -> ReconcileTotals:
        try:
            document = await asyncio.to_thread(
                self._sessions.find, request.namespace_id, session_id
            )
        except RETRIED:
            raise
        except MusterError as error:
            await self._summaries.mark_needs_repair(
                request.namespace_id, session_id, error.message, timestamp(datetime.now(UTC))
            )
            return _counted(totals, session_id, needs_repair=1)
        if document is None or not await self._is_idle_wrongly(document):
            return totals
        await self._nudge(document, request.placement)
        return _counted(totals, session_id, nudged=1)

    async def _is_idle_wrongly(self, document: SessionDocument) -> bool:
        if not await self._runs(document.namespace_id, document.session_id):
            # Before its first commit a session is its creator's to start, who has a prompt for it;
            # once closing it is its close's.
            return document.revision > 1 and document.closing is None
        if not has_work(control_of(document)):
            return False
        summary = await self._summaries.get(document.namespace_id, document.session_id)
        return summary is None or summary.revision < document.revision

    async def _runs(self, namespace: str, session_id: str) -> bool:
        handle = activity.client().get_workflow_handle(session_workflow_id(namespace, session_id))
        with _missing_is_fine():
            return (await handle.describe()).status == WorkflowExecutionStatus.RUNNING
        return False

    async def _nudge(self, document: SessionDocument, placement: Placement) -> None:
        """Signal the session's workflow, and start it if there is none and it isn't closing."""
        session = document.canonical.session
        ref = SessionRef(
            namespace_id=document.namespace_id,
            session_id=document.session_id,
            incarnation=session.broker.endpoint_incarnation,
        )
        workflow_id = session_workflow_id(ref.namespace_id, ref.session_id)
        if document.closing is not None:
            with _missing_is_fine():
                await activity.client().get_workflow_handle(workflow_id).signal(Updates.NUDGE)
            return
        await activity.client().start_workflow(
            Workflows.SESSION,
            SessionInput(ref=ref, placement=placement),
            id=workflow_id,
            task_queue=placement.root_queue,
            task_timeout=SESSION_TASK_TIMEOUT,
            id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
            id_reuse_policy=WorkflowIDReusePolicy.ALLOW_DUPLICATE,
            start_signal=Updates.NUDGE,
            static_summary=f"session {session.title or ref.session_id}",
            static_details=f"{session.broker.runtime} in {session.cwd}",
            search_attributes=_attributes(document),
        )

    @activity.defn(name=Activities.FIND_IDLE_SESSIONS)
    @coded
    async def find_idle(self, request: FindIdle) -> IdleSessions:
        """The closes that are due on a page of sessions; what can't be read is left alone."""
        async with heartbeating():
            return await asyncio.to_thread(self._find_idle, request)

    def _find_idle(self, request: FindIdle) -> IdleSessions:
        page, next_after = self._page(request.namespace_id, request.after, request.limit)
        now = parse_time(request.now)
        closes = []
        for session_id in page:
            with suppress(StateCorrupt):
                document = self._sessions.find(request.namespace_id, session_id)
                close = idle_close(document, now) if document is not None else None
                if close is not None:
                    closes.append(close)
        return IdleSessions(seen=len(page), closes=tuple(closes), next_after=next_after)

    def _page(self, namespace: str, after: str, limit: int) -> tuple[list[str], str | None]:
        """The next session ids, and behind which to go on."""
        ids = self._sessions.session_ids(namespace)
        page = [each for each in ids if each > after][:limit]
        more = bool(page) and page[-1] != ids[-1]
        return page, page[-1] if more else None

    @activity.defn(name=Activities.REPAIR_SESSION)
    @coded
    async def repair(self, request: RepairInput) -> RepairAnswer:
        """Rebuild a lost document, mend the readers' files, and set the session going again.

        Raises:
            ResourceGone: There is neither a document nor a file to rebuild it from.
            StateCorrupt: What can be rebuilt breaks a rule; nothing was written.
        """
        document, notes, rebuilt = await asyncio.to_thread(self._document_of, request)
        mended = await asyncio.to_thread(self._projections.repair, document)
        await self._summaries.write(summary_of(document), view_of(document))
        await self._summaries.mark_repaired(request.namespace_id, request.session_id)
        await self._nudge(document, request.placement)
        return RepairAnswer(
            namespace_id=request.namespace_id,
            session_id=request.session_id,
            incarnation=document.canonical.session.broker.endpoint_incarnation,
            revision=document.revision,
            rebuilt=rebuilt,
            projections_mended=mended,
            notes=notes,
        )

    def _document_of(self, request: RepairInput) -> tuple[SessionDocument, tuple[str, ...], bool]:
        namespace, session_id = request.namespace_id, request.session_id
        try:
            document = self._sessions.find(namespace, session_id)
        except StateCorrupt:
            document = None
        if document is not None:
            return document, (), False
        session = self._projections.read_session(namespace, session_id)
        if session is None:
            raise ResourceGone(
                f"session {session_id} has neither a document nor a readable "
                "projection/session.json to rebuild it from; what was set aside is in its folder"
            )
        rebuilt = rebuild(
            session,
            self._projections.read_turns(namespace, session_id),
            self._projections.read_reports(namespace, session_id),
        )
        check_document(rebuilt.document)
        self._sessions.restore(rebuilt.document)
        return rebuilt.document, rebuilt.notes, True

    @activity.defn(name=Activities.READ_HISTORY)
    @coded
    async def read_history(self, request: HistoryRequest) -> HistoryPage:
        """A page of the turns that compaction took out, newest first; it ends at a file's end."""
        return await asyncio.to_thread(self._read_history, request)

    def _read_history(self, request: HistoryRequest) -> HistoryPage:
        cursors = self._cursors(request)
        if request.before is not None:
            cursors = [each for each in cursors if each < request.before]
        turns: dict[str, TurnView] = {}
        unreadable: list[str] = []
        last: str | None = None
        for cursor in reversed(cursors):
            if len(turns) >= request.limit:
                break
            last = cursor
            try:
                ended = self._turns_of(request, cursor)
            except StateCorrupt as error:
                unreadable.append(error.message)
                continue
            # A compaction that was killed before its document was written filed some twice.
            turns |= {each.turn_id: turn_view(each) for each in ended if each.turn_id not in turns}
        more = last is not None and last != cursors[0]
        return HistoryPage(
            turns=tuple(turns.values()),
            next_before=last if more else None,
            unreadable=tuple(unreadable),
        )

    def _turns_of(self, request: HistoryRequest, cursor: str) -> list[Turn]:
        """The turns of one archive file, newest first."""
        incarnation, name = cursor.split("/")[1:]
        ref = SessionRef(
            namespace_id=request.namespace_id,
            session_id=request.session_id,
            incarnation=incarnation,
        )
        removed = self._archive.read(ref, name)
        return sorted(
            removed.turns.values() if removed else (),
            key=lambda turn: (turn.completed_at or "", turn.turn_id),
            reverse=True,
        )

    def _cursors(self, request: HistoryRequest) -> list[str]:
        """A name for each archive file, in the order in which they were filed."""
        found: list[str] = []
        for incarnation in self._archive.incarnations(request.namespace_id, request.session_id):
            ref = SessionRef(
                namespace_id=request.namespace_id,
                session_id=request.session_id,
                incarnation=incarnation,
            )
            found += [
                f"{name.removesuffix('.json')}/{incarnation}/{name}"
                for name in self._archive.segments(ref)
            ]
        return sorted(found)


@contextmanager
def _missing_is_fine() -> Iterator[None]:
    """A workflow that isn't there, or has ended, is no failure here."""
    try:
        yield
    except RPCError as error:
        if error.status != RPCStatusCode.NOT_FOUND:
            raise


def _attributes(document: SessionDocument) -> TypedSearchAttributes:
    control = control_of(document)
    keyword = SearchAttributeKey.for_keyword
    return TypedSearchAttributes(
        [
            SearchAttributePair(keyword(NAMESPACE), document.namespace_id),
            SearchAttributePair(keyword(SESSION), document.session_id),
            SearchAttributePair(keyword(STATUS), control.status.value),
            SearchAttributePair(
                SearchAttributeKey.for_datetime(ACTIVITY_AT), parse_time(control.activity_at)
            ),
        ]
    )


def _counted(
    totals: ReconcileTotals, session_id: str, *, nudged: int = 0, needs_repair: int = 0
) -> ReconcileTotals:
    return totals.model_copy(
        update={
            "nudged": totals.nudged + nudged,
            "needs_repair": totals.needs_repair + needs_repair,
            "session_ids": (*totals.session_ids, session_id)[:NAMED_SESSIONS],
        }
    )
