"""Processes that append at once and are killed at any moment leave one order without a gap."""

from __future__ import annotations

import multiprocessing
import random
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerContext, ForkServerProcess
from pathlib import Path

import pytest

from muster.domain.faults import arm, disarm_all
from muster.domain.public_events import PublicEvent
from muster.stores.files.journal import Journal
from tests.faults import journal_writer
from tests.faults.file_shim import Died
from tests.faults.scratch import scratch_folder
from tests.stores.files.journal_events import event as event_of
from tests.stores.files.journal_events import journal_at, sequences, several

pytestmark = pytest.mark.faults

SESSIONS = ("a", "b", "c", "d")
KILLS = 30
CHAOS_SECONDS = 8.0
PATIENCE_SECONDS = 20.0


@pytest.fixture
def scratch() -> Iterator[Path]:
    with scratch_folder() as folder:
        yield folder


@dataclass
class Writer:
    """A session's writing process, started again from what was acknowledged when it is killed."""

    context: ForkServerContext
    root: Path
    session: str
    stop: Path
    answered: dict[int, int] = field(default_factory=dict)
    process: ForkServerProcess | None = None
    _answers: Connection | None = None

    def start(self) -> None:
        """A new process that repeats what its predecessor wasn't answered."""
        self._answers, theirs = self.context.Pipe(duplex=False)
        first = max(self.answered, default=0) + 1
        arguments = (self.root, self.session, first, self.stop, theirs)
        self.process = self.context.Process(target=journal_writer.write, args=arguments)
        self.process.start()
        theirs.close()

    def take_answers(self, patience: float = 0) -> None:
        """Read what the process acknowledged; what it sent before it died still counts."""
        assert self._answers is not None
        try:
            while self._answers.poll(patience):
                patience = 0
                self.answered.update(self._answers.recv())
        except (EOFError, OSError):
            return

    def kill(self) -> None:
        """End it as a power switch would, wherever it is."""
        assert self.process is not None
        self.process.kill()
        self.process.join(PATIENCE_SECONDS)
        self.take_answers()


def _follow(journal: Journal, done: threading.Event, seen: list[str]) -> None:
    while not done.is_set():
        page = journal.read(len(seen))
        assert page.damaged == ()
        seen += [each.public_event_id for each in page.events]


def test_killed_writers_of_several_sessions_leave_each_event_once_in_order(scratch: Path) -> None:
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    chance = random.Random(seed)
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([journal_writer.__name__])
    root, stop = scratch / "state", scratch / "stop"
    writers = [Writer(context, root, session, stop) for session in SESSIONS]
    for each in writers:
        each.start()
    seen: list[str] = []
    done = threading.Event()
    reader = journal_at(root, journal_writer.SEGMENT_BYTES)
    follower = threading.Thread(target=_follow, args=(reader, done, seen))
    follower.start()
    try:
        _kill_at_random(writers, chance)
    finally:
        stop.touch()
        for each in writers:
            assert each.process is not None
            each.process.join(PATIENCE_SECONDS)
            each.take_answers()
        done.set()
        follower.join(PATIENCE_SECONDS)
    _check(reader, writers, seen)


def _kill_at_random(writers: list[Writer], chance: random.Random) -> None:
    deadline = time.monotonic() + CHAOS_SECONDS
    kills = 0
    while kills < KILLS and time.monotonic() < deadline:
        writer = chance.choice(writers)
        before = len(writer.answered)
        # At work, so that the kill falls between the calls of some append.
        while len(writer.answered) == before and time.monotonic() < deadline:
            assert writer.process is not None
            assert writer.process.exitcode is None, "a writer failed by itself"
            writer.take_answers(patience=0.1)
        time.sleep(chance.random() * 0.01)
        writer.kill()
        writer.start()
        kills += 1
    assert kills >= KILLS // 4, f"only {kills} kills in {CHAOS_SECONDS} s"


def _check(reader: Journal, writers: list[Writer], seen: list[str]) -> None:
    events: list[PublicEvent] = []
    while page := reader.read(len(events)).events:
        events += page
    assert [each.seq for each in events] == list(range(1, reader.last_seq() + 1))
    order = [each.public_event_id for each in events]
    assert len(set(order)) == len(order)
    assert order[: len(seen)] == seen, "a follower was shown another order"
    for each in writers:
        assert each.process is not None
        assert each.process.exitcode == 0
        found = [event.revision for event in events if event.session_id == each.session]
        assert found == list(range(1, len(found) + 1))
        assert len(found) >= len(each.answered) > 0
        for revision, seq in each.answered.items():
            assert order[seq - 1] == event_of(revision, each.session).public_event_id


def test_a_death_after_the_sync_and_before_the_answer_is_answered_by_the_repeat(
    scratch: Path,
) -> None:
    journal = journal_at(scratch / "state")

    def die() -> None:
        raise Died

    arm("journal.appended", die)
    try:
        with pytest.raises(Died):
            journal.append(several(1, 3))
    finally:
        disarm_all()
    again = journal_at(scratch / "state").append(several(1, 4))
    assert [each.seq for each in again] == [1, 2, 3, 4]
    assert sequences(journal) == [1, 2, 3, 4]
