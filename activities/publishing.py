"""Public events from a session's outbox to both sinks, each exactly once by its id.

The journal comes first and gives the sequence; MongoDB gets the same events under the same
sequence; only then does the document say that the journal has them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime

import pymongo

from muster.activities.together import all_of
from muster.domain.changes import AcknowledgeEvents, Acknowledgement
from muster.domain.contract import timestamp
from muster.domain.contracts import SessionRef
from muster.domain.errors import EndpointStale, ResourceGone, ResyncNeeded
from muster.domain.public_events import EVENT_BATCH, PublicEvent, UnsequencedEvent, owed_events
from muster.domain.session_document import SessionDocument
from muster.domain.summaries import summary_of
from muster.domain.view import view_of
from muster.stores.documents.public_events import PublicEvents
from muster.stores.documents.sessions import SessionSummaries
from muster.stores.files.journals import Journals
from muster.stores.files.projections import ProjectionStore
from muster.stores.files.sessions import SessionStore

MONGO_SECONDS = 1.5
"""How long an attempt waits for MongoDB: a session's commands wait for the attempt."""


class EventPublisher:
    """Publishes what a session owes.

    Args:
        sessions: Session documents.
        journals: The journals of the state root's namespaces.
        sink: The same events in MongoDB.
        projections: The readers' files.
        summaries: The list that readers see.
    """

    def __init__(
        self,
        sessions: SessionStore,
        journals: Journals,
        sink: PublicEvents,
        projections: ProjectionStore,
        summaries: SessionSummaries,
    ) -> None:
        self._sessions = sessions
        self._journals = journals
        self._sink = sink
        self._projections = projections
        self._summaries = summaries

    async def publish(self, ref: SessionRef) -> SessionDocument:
        """Publish the next batch of what is owed and refresh the readers' copies.

        Repeatable at any point: the journal and the sink know each event by its id.
        """
        document = await asyncio.to_thread(self._sessions.require, ref)
        published = await self._to_both_sinks(ref, document)
        if published:
            document = await asyncio.to_thread(self._acknowledge, document, ref, published)
        await self._refresh_copies(ref, document)
        return document

    async def announce(self, ref: SessionRef) -> None:
        """Publish what is owed and refresh the readers' copies, without changing the document.

        For a process that isn't the document's writer: the writer's own publication finds the
        events by their ids and acknowledges them. Repeatable at any point.
        """
        document = await asyncio.to_thread(self._sessions.require, ref)
        await self._to_both_sinks(ref, document)
        await self._refresh_copies(ref, document)

    async def publish_the_last(self, ref: SessionRef, document: SessionDocument) -> int:
        """Publish all that an ended session owes, and its last summary.

        Its document goes next, so it isn't told of the last batch. Repeatable at any point.

        Args:
            ref: The session, which nobody else writes any more.
            document: As it is on disk.

        Returns:
            The journal's sequence of the session's last event.
        """
        while len(owed_events(document)) > EVENT_BATCH:
            document = await self.publish(ref)
        published: list[PublicEvent]
        published, _ = await all_of(self._to_both_sinks(ref, document), self._summarize(document))
        return published[-1].seq if published else await self.last_sequence(ref.namespace_id)

    async def _to_both_sinks(self, ref: SessionRef, document: SessionDocument) -> list[PublicEvent]:
        """The next batch of what the document owes, as both sinks have it now."""
        owed = owed_events(document)[:EVENT_BATCH]
        if not owed:
            return []
        published = await asyncio.to_thread(self._append, ref, owed)
        with pymongo.timeout(MONGO_SECONDS):
            await self._fill_sink(ref.namespace_id, published)
        return published

    async def _refresh_copies(self, ref: SessionRef, document: SessionDocument) -> None:
        """Both of the readers' copies at once, unless all that is left is their removal."""
        if document.closing is not None and document.closing.ended_at is not None:
            return
        await all_of(asyncio.to_thread(self._project, ref), self._summarize(document))

    async def _summarize(self, document: SessionDocument) -> None:
        with pymongo.timeout(MONGO_SECONDS):
            await self._summaries.write(summary_of(document), view_of(document))

    def _project(self, ref: SessionRef) -> None:
        """The files follow the document as it is now: a later one may be there already."""
        with suppress(ResourceGone, EndpointStale):
            self._sessions.while_current(ref, self._projections.project)

    async def _fill_sink(self, namespace: str, published: list[PublicEvent]) -> None:
        """Bring MongoDB up to these events in the journal's order, whatever it missed before."""
        journal = self._journals.of(namespace)
        begin, end = published[0].seq, published[-1].seq
        without_gap = [each.seq for each in published] == list(range(begin, end + 1))

        async def read(after: int, limit: int) -> Sequence[PublicEvent]:
            if without_gap and after == begin - 1:
                return published[:limit]  # nothing was missed before
            try:
                page = await asyncio.to_thread(journal.read, after, limit)
            except ResyncNeeded as removed:
                first = int(str(removed.details["first_available"]))
                page = await asyncio.to_thread(journal.read, first - 1, limit)
            return page.events

        await self._sink.backfill(
            namespace, read, up_to=max(each.seq for each in published), expected=begin - 1
        )

    async def last_sequence(self, namespace: str) -> int:
        """The sequence of the namespace's last event, 0 if there is none."""
        return await asyncio.to_thread(self._journals.of(namespace).last_seq)

    def _append(self, ref: SessionRef, owed: list[UnsequencedEvent]) -> list[PublicEvent]:
        return self._journals.of(ref.namespace_id).append(owed)

    def _acknowledge(
        self, document: SessionDocument, ref: SessionRef, published: list[PublicEvent]
    ) -> SessionDocument:
        change = AcknowledgeEvents(
            acknowledgements=tuple(
                Acknowledgement(public_event_id=each.public_event_id, journal_seq=each.seq)
                for each in published
            )
        )
        at = timestamp(datetime.now(UTC))
        return self._sessions.commit(ref, document.revision, change, at).document
