"""Every command of every store method, run by the server with its reply lost or late.

Each scenario is run once undisturbed: its answer and what it leaves in the database are what
counts, and the commands it sends are the places where a reply can be lost. Then each place loses
one, two and three replies in succession, loses one that the driver doesn't make good, and is
answered after the client's time limit. The caller does what an activity does: it repeats the call
while the server isn't reachable.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
from pymongo.uri_parser import parse_uri

from muster.domain.canonical import sha256_hex
from muster.domain.control import MusterStatus
from muster.domain.errors import MongoUnavailable
from muster.domain.public_events import PublicEvent
from muster.domain.summaries import SummaryQuery
from muster.stores.documents.connection import Mongo, connect
from muster.stores.documents.content import CHUNK_SIZE, Contents
from muster.stores.documents.indexes import ensure_indexes
from muster.stores.documents.public_events import PublicEvents
from muster.stores.documents.sessions import SessionSummaries
from tests.faults.mongo_proxy import Faults, LossyProxy, lossy_proxy
from tests.stores.documents.builders import NAMESPACE, at, events, summary

pytestmark = pytest.mark.faults

AT_ONCE = 8
"""Runs side by side: most of a run is the driver's own pause before it looks again."""
TRIES = 6
SHORT_LIMIT_MS = 500
DRIVERS_OWN = frozenset({"hello", "ismaster", "ping", "endSessions"})

Step = Callable[[Mongo], Awaitable[object]]


@dataclass(frozen=True)
class Scenario:
    """A method in a situation."""

    name: str
    before: Step
    act: Step


async def nothing(_: Mongo) -> None:
    """No situation."""


def write(revision: int, **changed: Any) -> Step:
    return lambda mongo: SessionSummaries(mongo).write(summary(revision=revision, **changed))


def close(mongo: Mongo) -> Awaitable[object]:
    return SessionSummaries(mongo).close(NAMESPACE, "s-1", "inc-a", at(9))


async def written_and_closed(mongo: Mongo) -> None:
    await write(3)(mongo)
    await close(mongo)


def insert(first: int, last: int) -> Step:
    return lambda mongo: PublicEvents(mongo).insert(events(first, last))


async def five_events(mongo: Mongo) -> None:
    await ensure_indexes(mongo)
    await insert(1, 5)(mongo)


async def journal(after: int, limit: int) -> list[PublicEvent]:
    return events(after + 1, min(after + limit, 150))


CONTENT = [bytes(CHUNK_SIZE), b"rest"]
CONTENT_SHA256 = sha256_hex(b"".join(CONTENT))


async def stage(mongo: Mongo) -> object:
    return await Contents(mongo).stage(CONTENT)


async def read_content(mongo: Mongo) -> list[int]:
    return [len(piece) async for piece in Contents(mongo).read(CONTENT_SHA256)]


async def drop_indexes(mongo: Mongo) -> None:
    await ensure_indexes(mongo)
    await mongo.collection("sessions").drop_indexes()


UNCERTAIN = summary(
    revision=0, incarnation=None, generation=0, status=MusterStatus.UNCERTAIN, uncertain="silent"
)

SCENARIOS = [
    Scenario("write the first summary", nothing, write(1)),
    Scenario("write a later revision", write(3), write(4)),
    Scenario("write an earlier revision", write(3), write(2)),
    Scenario("write another incarnation", written_and_closed, write(1, incarnation="inc-b")),
    Scenario("write after the close", written_and_closed, write(4)),
    Scenario("close", write(3), close),
    Scenario("close what isn't there", nothing, close),
    Scenario(
        "mark an uncertain creation",
        nothing,
        lambda mongo: SessionSummaries(mongo).mark_uncertain(UNCERTAIN),
    ),
    Scenario(
        "mark an uncertain close",
        write(3),
        lambda mongo: SessionSummaries(mongo).mark_close_uncertain(
            NAMESPACE, "s-1", "inc-a", "silent"
        ),
    ),
    Scenario(
        "mark for repair",
        write(3),
        lambda mongo: SessionSummaries(mongo).mark_needs_repair(NAMESPACE, "s-1", "torn", at(5)),
    ),
    Scenario(
        "mark the unknown for repair",
        nothing,
        lambda mongo: SessionSummaries(mongo).mark_needs_repair(NAMESPACE, "s-1", "torn", at(5)),
    ),
    Scenario(
        "mark repaired",
        write(3, needs_repair="torn"),
        lambda mongo: SessionSummaries(mongo).mark_repaired(NAMESPACE, "s-1"),
    ),
    Scenario("get", write(3), lambda mongo: SessionSummaries(mongo).get(NAMESPACE, "s-1")),
    Scenario("list", write(3), lambda mongo: SessionSummaries(mongo).list(SummaryQuery())),
    Scenario(
        "resolve a prefix",
        write(3),
        lambda mongo: SessionSummaries(mongo).resolve_prefix(NAMESPACE, "s"),
    ),
    Scenario("insert the rest of a batch", five_events, insert(1, 9)),
    Scenario(
        "backfill",
        five_events,
        lambda mongo: PublicEvents(mongo).backfill(NAMESPACE, journal),
    ),
    Scenario(
        "read events", five_events, lambda mongo: PublicEvents(mongo).read(NAMESPACE, after=2)
    ),
    Scenario("stage content", nothing, stage),
    Scenario("stage content again", stage, stage),
    Scenario("read content", stage, read_content),
    Scenario("create indexes", drop_indexes, ensure_indexes),
]


@dataclass(frozen=True)
class Outcome:
    """What a caller heard, and what is in the database then."""

    answer: object
    left: dict[str, list[object]]


@dataclass(frozen=True)
class Case:
    """What is lost or late, and how the client is set."""

    faults: Faults | None = None
    options: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Server:
    """Where the server behind the proxies is."""

    port: int

    async def run(self, scenario: Scenario, case: Case) -> tuple[Outcome, LossyProxy]:
        """The scenario in a database of its own, its act through a proxy."""
        database = f"lost_{uuid.uuid4().hex[:12]}"
        async with (
            connect(_uri(self.port), database) as direct,
            lossy_proxy(self.port, case.faults) as proxy,
            connect(_uri(proxy.port), database, **case.options) as lossy,
        ):
            await scenario.before(direct)
            answer = await repeated(scenario.act, lossy)
            return Outcome(answer, await _left_in(direct)), proxy


async def repeated(act: Step, mongo: Mongo) -> object:
    """The act's answer, as an activity gets it: repeated while there is no server."""
    for _ in range(TRIES - 1):
        try:
            return await act(mongo)
        except MongoUnavailable:
            continue
    return await act(mongo)


async def _left_in(mongo: Mongo) -> dict[str, list[object]]:
    left: dict[str, list[object]] = {}
    for name in sorted(await mongo.database.list_collection_names()):
        collection = mongo.collection(name)
        documents = await collection.find().sort("_id").to_list()
        left[name] = [*documents, sorted(await collection.index_information())]
    return left


def _uri(port: int) -> str:
    return f"mongodb://127.0.0.1:{port}/?directConnection=true"


@pytest.fixture
def server(mongo_uri: str) -> Server:
    return Server(parse_uri(mongo_uri)["nodelist"][0][1])


def _places(proxy: LossyProxy) -> list[tuple[str, int]]:
    return [
        (command, occurrence)
        for command, count in proxy.seen.items()
        if command not in DRIVERS_OWN
        for occurrence in range(1, count + 1)
    ]


def _cases(place: tuple[str, int]) -> list[Case]:
    dropped = [Case(Faults(*place, times=times)) for times in (1, 2, 3)]
    by_the_caller = Case(Faults(*place), {"retryWrites": False, "retryReads": False})
    late = Case(
        Faults(*place, hold_seconds=3 * SHORT_LIMIT_MS / 1000), {"timeoutMS": SHORT_LIMIT_MS}
    )
    return [*dropped, by_the_caller, late]


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda each: each.name)
async def test_whatever_reply_is_lost_or_late_the_call_counts_once(
    server: Server, scenario: Scenario
) -> None:
    undisturbed, passed = await server.run(scenario, Case())
    side_by_side = asyncio.Semaphore(AT_ONCE)

    async def disturbed(case: Case) -> tuple[Case, Outcome, int]:
        async with side_by_side:
            outcome, proxy = await server.run(scenario, case)
            return case, outcome, proxy.hit

    cases = [case for place in _places(passed) for case in _cases(place)]
    assert cases
    for case, outcome, hit in await asyncio.gather(*map(disturbed, cases)):
        assert case.faults is not None
        assert hit == case.faults.times, case
        assert outcome == undisturbed, case
