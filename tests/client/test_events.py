"""Reading public events by the command and from Python, from either sink."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from muster.client import MusterClient
from muster.client.events import journal_source, mongo_source, tail
from muster.client.local_stack import StackInfo
from muster.domain.errors import InvalidInput, ResyncNeeded
from muster.domain.public_events import PublicEvent, UnsequencedEvent
from muster.stores.documents.connection import Mongo, connect
from muster.stores.documents.indexes import ensure_indexes
from muster.stores.documents.names import PUBLIC_EVENTS
from muster.stores.documents.public_events import PublicEvents
from muster.stores.files.journal import Journal
from muster.stores.files.private import PrivateTree
from tests.client.conftest import Command
from tests.waiting import eventually

SOURCES = ("mongo", "journal")


class Sinks:
    """A namespace with events in both sinks."""

    def __init__(self, mongo: Mongo, root: Path, name: str) -> None:
        self.name = name
        self.root = root
        self.mongo = mongo
        self.sink = PublicEvents(mongo)
        # Some ten events a segment.
        self.journal = Journal(PrivateTree(root), f"v2/{name}/events", segment_bytes=4_000)
        self._revision = 0

    async def add(self, number: int) -> None:
        """Publish so many events, one after the other."""
        for _ in range(number):
            self._revision += 1
            event = UnsequencedEvent(
                public_event_id=f"txn:s1:{self._revision}:turn.queued:turn:t1",
                namespace_id=self.name,
                session_id="s1",
                incarnation="inc-1",
                revision=self._revision,
                kind="turn.queued",
                entity="turn",
                entity_id="t1",
                payload={"session_id": "s1", "status": "queued", "reason": None},
            )
            await self.sink.insert(self.journal.append([event]))

    async def trim(self, seq: int) -> int:
        """Remove the segments before a sequence from both; the first that is left."""
        first = self.journal.remove_before(seq)
        old = {"namespace_id": self.name, "seq": {"$lt": first}}
        await self.mongo.collection(PUBLIC_EVENTS).delete_many(old)
        return first

    def read(self, source: str, after: int, **options: int | bool) -> AsyncIterator[PublicEvent]:
        if source == "mongo":
            return tail(mongo_source(self.mongo, self.name), after, **options)  # type: ignore[arg-type]
        return tail(journal_source(self.root, self.name), after, **options)  # type: ignore[arg-type]

    def command(self, source: str, after: int, *more: str) -> list[str]:
        """The command that reads them."""
        return [
            *("events", "tail", "--namespace", self.name, "--after", str(after)),
            *("--source", source, "--state-root", str(self.root), *more),
        ]


@pytest.fixture
async def sinks(stack: StackInfo, tmp_path: Path) -> AsyncIterator[Sinks]:
    assert stack.mongo is not None
    async with connect(stack.mongo.uri, "muster") as mongo:
        await ensure_indexes(mongo)
        yield Sinks(mongo, tmp_path / "state", f"e{uuid.uuid4().hex[:10]}")


@pytest.mark.parametrize("source", SOURCES)
async def test_reading_on_from_any_sequence_gives_the_exact_rest(sinks: Sinks, source: str) -> None:
    await sinks.add(25)
    for after in range(26):
        found = [each.seq async for each in sinks.read(source, after)]
        assert found == list(range(after + 1, 26))


async def test_both_sinks_give_the_same_events(sinks: Sinks) -> None:
    await sinks.add(25)
    one, other = [[each async for each in sinks.read(source, 3)] for source in SOURCES]
    assert one == other


@pytest.mark.parametrize("source", SOURCES)
async def test_a_position_whose_events_were_removed_gives_a_resync_and_the_first_left_goes_on(
    sinks: Sinks, source: str
) -> None:
    await sinks.add(40)
    first = await sinks.trim(30)
    assert 1 < first <= 30
    with pytest.raises(ResyncNeeded) as refused:
        [each async for each in sinks.read(source, first - 2)]
    assert refused.value.details["first_available"] == first
    found = [each.seq async for each in sinks.read(source, first - 1)]
    assert found == list(range(first, 41))


@pytest.mark.parametrize("source", SOURCES)
async def test_a_follower_gets_what_comes_and_hears_when_it_was_left_behind(
    sinks: Sinks, source: str
) -> None:
    await sinks.add(2)
    seen: list[int] = []

    async def follow() -> None:
        async for each in sinks.read(source, 0, follow=True):
            seen.append(each.seq)  # noqa: PERF401 - looked at meanwhile

    following = asyncio.create_task(follow())
    await eventually(lambda: seen == [1, 2])
    await sinks.add(30)
    await eventually(lambda: seen == list(range(1, 33)))
    following.cancel()
    await sinks.trim(30)
    with pytest.raises(ResyncNeeded):
        [each async for each in sinks.read(source, 2, follow=True)]


@pytest.mark.parametrize("source", SOURCES)
async def test_the_command_prints_one_object_a_line_up_to_its_limit(
    muster: Command, sinks: Sinks, source: str
) -> None:
    await sinks.add(5)
    said = await muster(*sinks.command(source, 1, "--limit", "3", "--json"))
    assert said.status == 0
    assert [each["seq"] for each in said.lines] == [2, 3, 4]
    assert said.lines[0]["payload"]["status"] == "queued"
    plain = await muster(*sinks.command(source, 4))
    assert plain.out.split() == ["5", "s1", "turn.queued", "t1", "status=queued"]


@pytest.mark.parametrize("source", SOURCES)
async def test_the_command_says_once_that_a_position_was_removed_and_where_to_go_on(
    muster: Command, sinks: Sinks, source: str
) -> None:
    await sinks.add(40)
    first = await sinks.trim(30)
    said = await muster(*sinks.command(source, 1, "--json"))
    assert said.status == 5
    (told,) = said.lines
    assert told["error"]["code"] == "resync_needed"
    assert told["error"]["details"]["first_available"] == first
    plain = await muster(*sinks.command(source, 1))
    assert plain.status == 5
    assert plain.out == ""
    assert plain.err.count("\n") == 1
    assert f"read after {first - 1}" in plain.err


async def test_a_state_root_that_is_not_there_is_refused_and_not_made(
    muster: Command, sinks: Sinks
) -> None:
    missing = sinks.root.parent / "nowhere"
    said = await muster("events", "tail", "--source", "journal", "--state-root", str(missing))
    assert said.status == 2
    assert not missing.exists()
    with pytest.raises(InvalidInput):
        journal_source(missing, sinks.name)


async def test_a_namespace_without_events_has_none_to_show(muster: Command, sinks: Sinks) -> None:
    said = await muster(*sinks.command("mongo", 0, "--json"))
    assert (said.status, said.out) == (0, "")


async def test_a_sessions_life_can_be_followed_through_the_command(
    muster: Command, client: MusterClient, folder: Path
) -> None:
    before = await muster("events", "tail", "-q")
    after = len(before.out.splitlines())
    created = await muster("session", "create", "--cwd", str(folder), "-q")
    session = created.out.strip()
    closed = await muster("session", "close", session, "--json")
    said = await muster("events", "tail", "--after", str(after), "--json")
    own = [each for each in said.lines if each["session_id"] == session]
    assert [each["kind"] for each in own] == [
        "session.created",
        "session.closing",
        "session.closed",
    ]
    assert own[-1]["seq"] == closed.json["last_journal_seq"]
