"""Publication: in batches, each session's in its order, nobody's first event behind all another's.

Whatever MongoDB missed is filled in the journal's order, however long that is.
"""

from __future__ import annotations

import asyncio
import uuid
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

import pytest

from muster.activities.publishing import EventPublisher
from muster.domain.contracts import SessionRef
from muster.domain.control import control_of
from muster.domain.creation import CreateCommand, CreateSpec, InitialEvent, first_document
from muster.domain.errors import MongoUnavailable
from muster.domain.identifiers import key_digest
from muster.domain.public_events import EVENT_BATCH, PublicEvent, owed_events
from muster.domain.runtime import Verifier
from muster.domain.session_document import Broker
from muster.stores.documents.connection import connect
from muster.stores.documents.indexes import ensure_indexes
from muster.stores.documents.public_events import PublicEvents
from muster.stores.documents.sessions import SessionSummaries
from muster.stores.files import journal_reading
from muster.stores.files.archive import ArchiveStore
from muster.stores.files.journals import Journals
from muster.stores.files.private import PrivateTree
from muster.stores.files.projections import ProjectionStore
from muster.stores.files.sessions import SessionStore

NAMESPACE = "fair"
TRIES = 20


@dataclass
class Publishing:
    """A publisher as one worker process has it."""

    sessions: SessionStore
    journals: Journals
    sink: PublicEvents
    publisher: EventPublisher

    def owes(self, session: str, number: int) -> SessionRef:
        """A new session that owes so many events."""
        command = CreateCommand(
            namespace_id=NAMESPACE,
            key_digest=key_digest(NAMESPACE, session),
            spec=CreateSpec(
                cwd="/",
                session_id=session,
                initial_events=tuple(
                    InitialEvent(kind="report.filed", entity="report", entity_id=f"r{each:05}")
                    for each in range(number - 1)
                ),
            ),
        )
        broker = Broker(
            endpoint_url="acp:none",
            endpoint_generation=0,
            endpoint_incarnation=f"inc-{session}",
            sidecar_verifier=Verifier(key_id="a" * 64, public_key="cHVibGlj"),
        )
        self.sessions.create(first_document(command, broker, "2026-01-01T00:00:00Z"))
        return SessionRef(
            namespace_id=NAMESPACE, session_id=session, incarnation=broker.endpoint_incarnation
        )

    async def publish(self, ref: SessionRef) -> int:
        """As a session's workflow does: again where MongoDB took too long; what is still owed."""
        for _ in range(TRIES):
            with suppress(MongoUnavailable):
                return control_of(await self.publisher.publish(ref)).unacknowledged
        return control_of(await self.publisher.publish(ref)).unacknowledged

    async def publish_all(self, ref: SessionRef) -> None:
        """A batch at a time, until nothing is owed."""
        while await self.publish(ref):
            pass

    def journal(self) -> list[PublicEvent]:
        """All events of the namespace."""
        journal, found = self.journals.of(NAMESPACE), list[PublicEvent]()
        while page := journal.read(len(found)).events:
            found += page
        return found

    async def stored(self) -> list[PublicEvent]:
        """The same in MongoDB."""
        found: list[PublicEvent] = []
        while page := await self.sink.read(NAMESPACE, len(found)):
            found += page
        return found


@pytest.fixture
async def publishing(mongo_uri: str, tmp_path: Path) -> AsyncIterator[Publishing]:
    async with connect(mongo_uri, f"fair_{uuid.uuid4().hex[:12]}") as mongo:
        await ensure_indexes(mongo)
        tree = PrivateTree(tmp_path)
        sessions, journals = SessionStore(tree, ArchiveStore(tree)), Journals(tree)
        sink = PublicEvents(mongo)
        publisher = EventPublisher(
            sessions, journals, sink, ProjectionStore(tree), SessionSummaries(mongo)
        )
        yield Publishing(sessions, journals, sink, publisher)
        journals.close()


async def test_a_session_that_owes_a_thousand_events_lets_another_in_after_each_batch(
    publishing: Publishing,
) -> None:
    busy, quiet = publishing.owes("busy", 1_000), publishing.owes("quiet", 1)
    await publishing.publish(busy)
    await publishing.publish(quiet)
    await publishing.publish_all(busy)
    events = publishing.journal()
    place = next(each.seq for each in events if each.session_id == "quiet")
    assert place == EVENT_BATCH + 1
    assert Counter(each.session_id for each in events) == {"busy": 1_000, "quiet": 1}
    assert await publishing.stored() == events


async def test_sessions_that_publish_at_the_same_time_take_turns_by_batches(
    publishing: Publishing,
) -> None:
    owing = [publishing.owes(f"s{number}", 300) for number in range(4)]
    await asyncio.gather(*(publishing.publish_all(ref) for ref in owing))
    events = publishing.journal()
    assert [each.seq for each in events] == list(range(1, 1_201))
    for ref in owing:
        own = [each for each in events if each.session_id == ref.session_id]
        ids = [each.public_event_id for each in own]
        assert ids == sorted(ids)
    runs = [len(list(found)) for _, found in groupby(events, lambda each: each.session_id)]
    assert max(runs) < 300, "a session held the journal for all it owed"
    assert await publishing.stored() == events


async def test_a_long_backlog_of_mongodb_is_filled_whatever_a_page_of_the_journal_holds(
    publishing: Publishing, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pages end by their bytes, too; a short one isn't the journal's end."""
    monkeypatch.setattr(journal_reading, "PAGE_BYTES", 2_000)
    journal = publishing.journals.of(NAMESPACE)
    missed = publishing.owes("missed", 500)
    document = publishing.sessions.require(missed)
    owed = owed_events(document)
    for begin in range(0, 500, EVENT_BATCH):
        journal.append(owed[begin : begin + EVENT_BATCH])
    assert len(journal.read(0).events) < EVENT_BATCH
    await publishing.publish(publishing.owes("next", 1))
    events = publishing.journal()
    assert len(events) == 501
    assert await publishing.stored() == events


async def test_an_event_that_was_appended_before_a_crash_keeps_its_sequence_in_both_sinks(
    publishing: Publishing,
) -> None:
    ref = publishing.owes("crashed", 3)
    owed = owed_events(publishing.sessions.require(ref))
    first = publishing.journals.of(NAMESPACE).append(owed[:2])
    await publishing.publish_all(publishing.owes("other", 2))
    await publishing.publish_all(ref)
    events = publishing.journal()
    assert events[:2] == first
    assert [each.session_id for each in events] == [
        "crashed",
        "crashed",
        "other",
        "other",
        "crashed",
    ]
    assert await publishing.stored() == events
