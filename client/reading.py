"""Reads: what is in MongoDB, without a worker or a workflow."""

from __future__ import annotations

from dataclasses import dataclass

from muster.domain.control import MusterStatus
from muster.domain.errors import AmbiguousPrefix, ResourceGone
from muster.domain.identifiers import check_session_id
from muster.domain.summaries import SessionSummary, SummaryOrder, SummaryPage, SummaryQuery
from muster.domain.view import QuestionView, SessionView, TurnView
from muster.stores.documents.connection import Mongo
from muster.stores.documents.sessions import SessionSummaries


@dataclass(frozen=True, slots=True)
class SessionReader:
    """The sessions of one namespace as their summaries and read copies say."""

    mongo: Mongo
    namespace: str

    @property
    def _store(self) -> SessionSummaries:
        return SessionSummaries(self.mongo)

    async def list(
        self,
        *,
        statuses: tuple[MusterStatus, ...] = (),
        prefix: str = "",
        include_closed: bool = False,
        order: SummaryOrder = SummaryOrder.RECENT,
        after: str | None = None,
        limit: int = 100,
    ) -> SummaryPage:
        """A page of sessions; `after` is the `next_after` of the page before."""
        query = SummaryQuery(
            namespace_id=self.namespace,
            statuses=statuses,
            prefix=prefix,
            include_closed=include_closed,
            order=order,
            after=after,
            limit=limit,
        )
        return await self._store.list(query)

    async def get(self, session: str) -> SessionSummary:
        """The summary of a session, closed or not.

        Raises:
            ResourceGone: There never was one, or nothing is left of it.
        """
        found = await self._store.get(self.namespace, check_session_id(session))
        if found is None:
            raise self._nothing(session)
        return found

    async def incarnation(self, session: str) -> str:
        """The incarnation of a session, closed or not.

        Raises:
            ResourceGone: There is no such session, or none that has a document.
        """
        found = await self.get(session)
        if found.incarnation is None:
            raise ResourceGone(
                f"session {session} has no document: {found.uncertain or 'it is being created'}"
            )
        return found.incarnation

    async def view(self, session: str) -> SessionView | None:
        """The read copy of a session's document; None if it has no document."""
        return await self._store.get_view(self.namespace, check_session_id(session))

    async def show(self, session: str) -> SessionView:
        """The read copy of a session's document.

        Raises:
            ResourceGone: There is no session with a document.
        """
        found = await self.view(session)
        if found is None:
            raise self._nothing(session)
        return found

    async def questions(self, session: str) -> tuple[QuestionView, ...]:
        """The open questions of a session, oldest first."""
        return (await self.show(session)).questions

    async def turn(self, session: str, turn: str) -> TurnView | None:
        """One of the session's last turns."""
        found = await self.view(session)
        turns = found.turns if found else ()
        return next((each for each in turns if each.turn_id == turn), None)

    async def resolve(self, prefix: str, *, include_closed: bool = False) -> str:
        """The one session id that is `prefix` or begins with it.

        Raises:
            AmbiguousPrefix: Several do; `candidates` lists them.
            ResourceGone: None does.
        """
        check_session_id(prefix)
        found = await self._store.resolve_prefix(
            self.namespace, prefix, include_closed=include_closed
        )
        if prefix in found:
            return prefix
        return self.the_one(prefix, found, "session")

    def the_one(self, prefix: str, found: tuple[str, ...], what: str) -> str:
        """The one id of `found`, which all begin with `prefix`."""
        if len(found) > 1:
            raise AmbiguousPrefix(
                f"{prefix!r} fits more than one {what}: {', '.join(found)}; give more of it",
                candidates=list(found),
            )
        if not found:
            raise self._nothing(prefix)
        return found[0]

    def _nothing(self, session: str) -> ResourceGone:
        return ResourceGone(
            f"namespace {self.namespace!r} has no session {session!r}; "
            "`muster session ls` lists what there is, with --all also what is closed"
        )
