"""The second sink of public events: the same events in the same order, each once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence

import pytest

from muster.domain.errors import InvalidInput, LimitExceeded, StateCorrupt
from muster.domain.public_events import EVENT_BATCH, PublicEvent
from muster.stores.documents.connection import Mongo, connect
from muster.stores.documents.public_events import PublicEvents
from tests.stores.documents.builders import NAMESPACE, event, events
from tests.stores.documents.commands import SentCommands


@pytest.fixture
def sink(mongo: Mongo) -> PublicEvents:
    return PublicEvents(mongo)


class ListedJournal:
    """What a namespace's journal holds."""

    def __init__(self, held: Sequence[PublicEvent]) -> None:
        self.held = held

    async def read(self, after: int, limit: int) -> list[PublicEvent]:
        return [each for each in self.held if each.seq > after][:limit]


async def test_events_read_back_in_order_from_any_sequence(sink: PublicEvents) -> None:
    await sink.insert(events(1, 5))
    assert await sink.read(NAMESPACE) == tuple(events(1, 5))
    assert await sink.read(NAMESPACE, after=3) == tuple(events(4, 5))
    assert await sink.read(NAMESPACE, after=1, limit=2) == tuple(events(2, 3))
    assert await sink.last_seq(NAMESPACE) == 5


async def test_a_namespace_without_events_is_at_sequence_zero(sink: PublicEvents) -> None:
    await sink.insert([event(1, namespace_id="other")])
    assert await sink.last_seq(NAMESPACE) == 0
    assert await sink.read(NAMESPACE) == ()


async def test_the_same_batch_again_inserts_nothing(sink: PublicEvents) -> None:
    await sink.insert(events(1, 5))
    await sink.insert(events(1, 5))
    assert await sink.read(NAMESPACE) == tuple(events(1, 5))


async def test_the_rest_of_an_interrupted_batch_follows(sink: PublicEvents) -> None:
    await sink.insert(events(1, 2))
    await sink.insert(events(1, 5))
    assert await sink.read(NAMESPACE) == tuple(events(1, 5))


async def test_two_writers_of_overlapping_batches_leave_each_event_once(
    sink: PublicEvents,
) -> None:
    await asyncio.gather(*(sink.insert(events(1, 100)) for _ in range(4)))
    assert await sink.read(NAMESPACE) == tuple(events(1, 100))


@pytest.mark.parametrize(
    "other",
    [
        event(3, public_event_id="txn:another"),
        event(6, public_event_id=event(3).public_event_id),
        event(3, payload={"text": "changed"}),
    ],
    ids=["another id at the sequence", "another sequence of the id", "other content"],
)
async def test_what_contradicts_a_stored_event_is_refused_and_changes_nothing(
    sink: PublicEvents, other: PublicEvent
) -> None:
    await sink.insert(events(1, 5))
    with pytest.raises(StateCorrupt, match="sequence"):
        await sink.insert([other])
    assert await sink.read(NAMESPACE) == tuple(events(1, 5))


async def test_a_batch_out_of_order_is_refused(sink: PublicEvents) -> None:
    with pytest.raises(InvalidInput, match="team:1 doesn't follow team:2"):
        await sink.insert([event(2), event(1)])
    assert await sink.last_seq(NAMESPACE) == 0


async def test_a_batch_of_two_namespaces_is_refused(sink: PublicEvents) -> None:
    with pytest.raises(InvalidInput, match="one namespace"):
        await sink.insert([event(1), event(2, namespace_id="other")])


async def test_a_batch_past_the_limit_is_refused(sink: PublicEvents) -> None:
    with pytest.raises(LimitExceeded):
        await sink.insert(events(1, EVENT_BATCH + 1))
    assert await sink.last_seq(NAMESPACE) == 0


async def test_an_integer_that_has_no_form_in_the_store_is_refused(sink: PublicEvents) -> None:
    with pytest.raises(InvalidInput, match="64 bits"):
        await sink.insert([event(1, payload={"n": 2**70})])


async def test_a_sink_that_was_down_gets_everything_it_missed(sink: PublicEvents) -> None:
    journal = ListedJournal(events(1, 300))
    await sink.insert(events(1, 7))
    assert await sink.backfill(NAMESPACE, journal.read) == 300
    assert await sink.read(NAMESPACE) == tuple(events(1, 300))


@pytest.mark.parametrize("expected", [0, 1, 299, 300, 5_000])
@pytest.mark.parametrize("here", [0, 1, 40, 299])
async def test_a_sink_behind_what_was_expected_gets_everything_it_missed(
    sink: PublicEvents, here: int, expected: int
) -> None:
    journal = ListedJournal(events(1, 300))
    for first in range(1, here + 1, EVENT_BATCH):
        await sink.insert(journal.held[first - 1 : min(here, first + EVENT_BATCH - 1)])
    await sink.backfill(NAMESPACE, journal.read, up_to=300, expected=expected)
    assert await sink.read(NAMESPACE) == tuple(journal.held)


async def test_what_others_appended_before_ones_own_event_is_copied_first(
    sink: PublicEvents,
) -> None:
    journal = ListedJournal(events(1, 300))
    await sink.insert(events(1, 7))
    assert await sink.backfill(NAMESPACE, journal.read, up_to=9) >= 9
    copied = await sink.read(NAMESPACE)
    assert copied == tuple(events(1, len(copied)))


async def test_what_the_journal_lost_is_missing_here_too(sink: PublicEvents) -> None:
    journal = ListedJournal([*events(4, 6), *events(9, 10)])
    assert await sink.backfill(NAMESPACE, journal.read) == 10
    assert await sink.read(NAMESPACE) == (*events(4, 6), *events(9, 10))


async def test_two_backfills_at_once_leave_each_event_once(sink: PublicEvents) -> None:
    journal = ListedJournal(events(1, 300))
    await asyncio.gather(*(sink.backfill(NAMESPACE, journal.read) for _ in range(3)))
    assert await sink.read(NAMESPACE) == tuple(events(1, 300))


@pytest.fixture
async def sent() -> SentCommands:
    return SentCommands()


@pytest.fixture
async def counted(mongo: Mongo, mongo_uri: str, sent: SentCommands) -> AsyncIterator[PublicEvents]:
    """The sink over a client whose commands are counted."""
    async with connect(mongo_uri, mongo.database.name, event_listeners=[sent]) as other:
        yield PublicEvents(other)


async def test_a_full_batch_costs_two_commands(counted: PublicEvents, sent: SentCommands) -> None:
    journal = ListedJournal(events(1, EVENT_BATCH))
    await counted.backfill(NAMESPACE, journal.read)
    assert sent.names == ["find", "insert"]


@pytest.mark.parametrize("already", [0, 1, 100, EVENT_BATCH])
async def test_a_repeated_batch_costs_three_commands_at_most(
    counted: PublicEvents, sent: SentCommands, already: int
) -> None:
    await counted.insert(events(1, already) if already else [])
    sent.names.clear()
    await counted.insert(events(1, EVENT_BATCH))
    assert 1 <= len(sent.names) <= 3
    assert await counted.last_seq(NAMESPACE) == EVENT_BATCH


async def test_the_last_event_is_looked_for_where_it_is_expected_and_not_among_all(
    counted: PublicEvents, sent: SentCommands
) -> None:
    await counted.insert(events(1, 20))
    sent.finds.clear()
    assert await counted.last_seq(NAMESPACE, expected=15) == 20
    assert [each["filter"]["seq"] for each in sent.finds] == [{"$gte": 15}]
