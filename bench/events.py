"""What publishing costs: 1,000 events of 20 sessions, and appends to a journal that has grown.

    python -m bench events

The sinks are the journal's folder and MongoDB; what a publication writes beside them (the
session's document, the readers' files) is counted apart. Syncs of the journal's index, two in some
hundred batches, are SQLite's own and not counted.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from bench import journal
from bench.common import RESULTS, Figure, latency
from bench.measure import Plan
from bench.probe import CountedCalls, CountedCommands, Probe
from bench.stage import plain_environ
from muster.activities.publishing import EventPublisher
from muster.devstack import Stack, StackOptions
from muster.domain.contracts import SessionRef
from muster.domain.control import control_of
from muster.domain.creation import CreateCommand, CreateSpec, InitialEvent, first_document
from muster.domain.identifiers import key_digest
from muster.domain.public_events import EVENT_BATCH, PublicEvent, UnsequencedEvent
from muster.domain.runtime import Verifier
from muster.domain.session_document import Broker, SessionDocument
from muster.stores.documents.connection import connect
from muster.stores.documents.indexes import ensure_indexes
from muster.stores.documents.public_events import PublicEvents
from muster.stores.documents.sessions import SessionSummaries
from muster.stores.files import calls
from muster.stores.files.archive import ArchiveStore
from muster.stores.files.journals import Journals
from muster.stores.files.private import PrivateTree
from muster.stores.files.projections import ProjectionStore
from muster.stores.files.sessions import SessionStore

NAMESPACE = "bench"
SESSIONS = 20
EVENTS = 1_000
FSYNCS_A_BATCH = 2
COMMANDS_A_BATCH = 3
JOURNAL_GROWTH = 1.1
GROWN = (1_000, 1_000_000)
AT = "2026-01-01T00:00:00Z"


class CountedPublisher(EventPublisher):
    """The real publisher; what its sinks have cost is counted apart."""

    def watch(self, probe: Probe) -> None:
        """Count from here on; one publication at a time."""
        self._probe = probe
        self.batches = 0
        self.fsyncs = 0
        self.commands = 0

    def _append(self, ref: SessionRef, owed: list[UnsequencedEvent]) -> list[PublicEvent]:
        before = self._probe.calls["fsync"]
        published = super()._append(ref, owed)
        self.fsyncs += self._probe.calls["fsync"] - before
        self.batches += 1
        return published

    async def _fill_sink(self, namespace: str, published: list[PublicEvent]) -> None:
        fsyncs, commands = self._probe.calls["fsync"], self._probe.commands.total()
        await super()._fill_sink(namespace, published)
        self.fsyncs += self._probe.calls["fsync"] - fsyncs
        self.commands += self._probe.commands.total() - commands


def session_of(number: int, events: int) -> SessionDocument:
    """A session's first document, which owes this many events."""
    verifier = Verifier(key_id=f"{number:064x}", public_key="cHVibGlj")
    initial = tuple(
        InitialEvent(kind="report.filed", entity="report", entity_id=f"r{each}")
        for each in range(events - 1)
    )
    command = CreateCommand(
        namespace_id=NAMESPACE,
        key_digest=key_digest(NAMESPACE, str(number)),
        spec=CreateSpec(cwd="/", session_id=f"s-{number:03}", initial_events=initial),
    )
    broker = Broker(
        endpoint_url="acp:bench",
        endpoint_generation=0,
        endpoint_incarnation=f"inc-{number}",
        sidecar_verifier=verifier,
    )
    return first_document(command, broker, AT)


async def publish(publisher: CountedPublisher, sessions: Sequence[SessionDocument]) -> None:
    """Publish what the sessions owe: a batch of one, then one of the next, until nothing is."""
    left = [
        SessionRef(
            namespace_id=NAMESPACE,
            session_id=each.session_id,
            incarnation=each.canonical.session.broker.endpoint_incarnation,
        )
        for each in sessions
    ]
    while left:
        done = [control_of(await publisher.publish(ref)).unacknowledged == 0 for ref in left]
        left = [ref for ref, is_done in zip(left, done, strict=True) if not is_done]


async def batches(uri: str, root: Path, sessions: int, events: int) -> list[Figure]:
    """The costs of a batch, when so many sessions owe so many events in all."""
    probe = Probe()
    with calls.use(CountedCalls(probe)):
        async with connect(
            uri, f"bench_{root.name}", event_listeners=[CountedCommands(probe)]
        ) as mongo:
            await ensure_indexes(mongo)
            tree = PrivateTree(root)
            store = SessionStore(tree, ArchiveStore(tree))
            publisher = CountedPublisher(
                store,
                Journals(tree),
                PublicEvents(mongo),
                ProjectionStore(tree),
                SessionSummaries(mongo),
            )
            documents = [session_of(each, events // sessions) for each in range(sessions)]
            for each in documents:
                store.create(each)
            publisher.watch(probe)
            fsyncs, commands = probe.calls["fsync"], probe.commands.total()
            await publish(publisher, documents)
            fsyncs = probe.calls["fsync"] - fsyncs
            commands = probe.commands.total() - commands
            stored = await PublicEvents(mongo).last_seq(NAMESPACE)
    if stored != events:
        raise RuntimeError(f"{stored} of {events} events were published")
    number = publisher.batches
    name = f"publishing {events:,} events, sessions: {sessions}"
    note = f"{number} batches of up to {EVENT_BATCH}"
    return [
        Figure(
            f"{name}: fsyncs of the sinks a batch",
            "fsyncs",
            round(publisher.fsyncs / number, 2),
            target=FSYNCS_A_BATCH,
            note=note,
        ),
        Figure(
            f"{name}: MongoDB commands a batch",
            "commands",
            round(commands / number, 2),
            target=COMMANDS_A_BATCH,
            note=f"{round(publisher.commands / number, 2):g} of them for events, "
            "the rest for the session's summary",
        ),
        Figure(
            f"{name}: all fsyncs a batch",
            "fsyncs",
            round(fsyncs / number, 2),
            note="with the session's document and the readers' files",
        ),
    ]


def growth(folder: Path, appends: int) -> list[Figure]:
    """Appends of one event beside few events and beside many, taking turns."""
    few, many = (journal.Subject(folder / str(size), size) for size in GROWN)
    for subject in (few, many):
        for _ in range(20):
            subject.append(1)
        subject.reset()
    for _ in range(appends):
        few.append(1)
        many.append(1)
    found = latency(
        f"append to a journal of {GROWN[1]:,} events",
        many.wall,
        few.wall,
        target=JOURNAL_GROWTH,
        note=f"the floor is an append beside {GROWN[0]:,} events",
    )
    syncs = Figure("append: fsyncs", "fsyncs", round(many.syncs / appends, 2))
    return [found, syncs]


@asynccontextmanager
async def _mongo(folder: Path) -> AsyncIterator[str]:
    options = StackOptions(
        data_dir=folder / "stack",
        with_temporal=False,
        worker=False,
        ui=False,
        mongo_port=0,
        environ=plain_environ(),
    )
    async with Stack(options) as stack:
        info = stack.describe().mongo
        assert info is not None
        yield info.uri


def _new_folder() -> Path:
    """On the disk that a state root would be on; not in memory."""
    RESULTS.mkdir(parents=True, exist_ok=True)
    return Path(tempfile.mkdtemp(prefix="events-", dir=RESULTS)).absolute()


async def run(plan: Plan) -> list[Figure]:
    """The figures."""
    folder = _new_folder()
    try:
        async with _mongo(folder) as uri:
            many = await batches(uri, folder / "many", SESSIONS, EVENTS)
            one = await batches(uri, folder / "one", 1, EVENTS)
        return [*many, *one, *growth(folder, plan.operations * plan.runs)]
    finally:
        shutil.rmtree(folder, ignore_errors=True)
