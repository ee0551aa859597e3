"""An append that fails, dies or loses its power at any file call: each event once, no gap."""

from __future__ import annotations

import errno
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import pytest

from muster.domain.errors import StorageUnavailable
from muster.domain.public_events import UnsequencedEvent
from muster.stores.files import calls
from muster.stores.files.calls import Call
from muster.stores.files.journal import Journal
from muster.stores.files.journal_index import NAME
from muster.stores.files.journal_segments import ACTIVE
from tests.faults.crash_states import RecordingCalls, crash_states, materialise
from tests.faults.file_shim import CHUNK, CountingCalls, Died, DyingCalls, FailingCalls, When
from tests.faults.scratch import scratch_folder
from tests.stores.files.journal_events import FOLDER, event, journal_at, revisions, sequences

pytestmark = pytest.mark.faults

T = TypeVar("T")

NEVER = 1 << 30
BATCH = [event(number, payload="x" * (CHUNK // 2)) for number in range(5, 9)]
"""Larger than two of the shim's writes, so that a fault falls into a line and between lines."""


@dataclass(frozen=True)
class Case:
    """A journal as it stands before the append that is disturbed."""

    name: str
    before: int
    segment_bytes: int = NEVER
    torn: bytes = b""

    def prepare(self, root: Path) -> None:
        """Lay it out, without a process that has it open."""
        journal = journal_at(root, self.segment_bytes)
        for number in range(1, self.before + 1):
            journal.append([event(number)])
        journal.close()
        if self.torn:
            with (root / FOLDER / ACTIVE).open("ab") as file:
                file.write(self.torn)

    def open(self, root: Path) -> Journal:
        """The journal as a process opens it that has just started."""
        return journal_at(root, self.segment_bytes)

    @property
    def wanted(self) -> list[UnsequencedEvent]:
        """What is appended: the last event that is there, again, and the new ones."""
        return [event(number) for number in range(max(1, self.before), 5)] + BATCH


CASES = (
    Case("first", 0),
    Case("next", 4),
    Case("rotating", 4, segment_bytes=8_000),
    Case("after_rotation", 4, segment_bytes=1),
    Case("after_a_torn_line", 4, torn=b'{"seq":5,"public_event_id":"txn:'),
)
each_case = pytest.mark.parametrize("case", CASES, ids=lambda each: each.name)


@pytest.fixture
def scratch() -> Iterator[Path]:
    with scratch_folder() as folder:
        yield folder


def _check(case: Case, root: Path, told: object) -> None:
    """No reader sees a gap, and the repeated append completes it, for ever."""
    before = sequences(case.open(root))
    assert before == list(range(1, len(before) + 1)), told
    assert len(before) >= case.before, told
    shown = [each.public_event_id for each in case.open(root).read(0).events]
    for _ in range(2):
        journal = case.open(root)
        got = journal.append(case.wanted)
        assert [each.seq for each in got] == [each.revision for each in case.wanted], told
        assert sequences(journal) == list(range(1, 9)), told
        assert revisions(journal) == list(range(1, 9)), told
        journal.close()
    now = [each.public_event_id for each in case.open(root).read(0).events]
    assert now[: len(shown)] == shown, ("a reader was shown what isn't so", told)


def _calls_of(case: Case, root: Path) -> int:
    case.prepare(root)
    counting = CountingCalls()
    journal = case.open(root)
    with calls.use(counting):
        journal.append(case.wanted)
    journal.close()
    _check(case, root, "undisturbed")
    return counting.count


@each_case
def test_a_death_before_any_call_leaves_each_event_once_without_a_gap(
    case: Case, scratch: Path
) -> None:
    for k in range(1, _calls_of(case, scratch / "whole") + 1):
        root = scratch / str(k)
        case.prepare(root)
        journal = case.open(root)
        with calls.use(DyingCalls(k)), pytest.raises(Died):
            journal.append(case.wanted)
        _check(case, root, k)


@each_case
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("number", [errno.EIO, errno.ENOSPC, errno.EINTR], ids=errno.errorcode.get)
def test_an_error_at_any_call_leaves_each_event_once_without_a_gap(
    case: Case, number: int, when: When, scratch: Path
) -> None:
    for k in range(1, _calls_of(case, scratch / "whole") + 1):
        root = scratch / str(k)
        case.prepare(root)
        journal = case.open(root)
        failing = FailingCalls(k, number, when)
        with calls.use(failing):
            try:
                journal.append(case.wanted)
            except StorageUnavailable:
                # The same process goes on.
                assert [each.seq for each in journal.append(case.wanted)][-1] == 8, k
        journal.close()
        _check(case, root, (k, failing.made[k - 1]))


@each_case
@pytest.mark.parametrize("index", ["old", "new", "none"])
def test_every_state_a_power_cut_may_leave_is_recovered(
    case: Case, index: str, scratch: Path
) -> None:
    recorded = scratch / "recorded"
    case.prepare(recorded)
    recorder = RecordingCalls(recorded)
    journal = case.open(recorded)
    with calls.use(recorder):
        journal.append(case.wanted)
    journal.close()
    total = len(recorder.recording.steps)
    for number, state in enumerate(crash_states(recorder.recording)):
        root = scratch / str(number)
        materialise(state.nodes, root)
        _put_index(index, recorded, root)
        told = f"{state.made} of {total} calls made, lost: {state.lost}"
        if state.made == total:
            assert sequences(case.open(root)) == list(range(1, 9)), told
        _check(case, root, told)
        shutil.rmtree(root)
    recorder.close()


def test_a_segment_closed_a_moment_ago_is_never_lost_to_the_next(scratch: Path) -> None:
    recorder = RecordingCalls(_empty(scratch / "recorded"))
    journal = journal_at(scratch / "recorded", segment_bytes=1)
    with calls.use(recorder):
        for number in range(1, 4):
            journal.append([event(number)])
    for number, state in enumerate(crash_states(recorder.recording)):
        materialise(state.nodes, scratch / str(number))
        found = sequences(journal_at(scratch / str(number)))
        assert found == list(range(1, len(found) + 1)), state.lost
        if state.made == len(recorder.recording.steps):
            assert found == [1, 2, 3], state.lost
    recorder.close()


def _empty(root: Path) -> Path:
    journal_at(root)
    return root


class DyingOnce(RecordingCalls):
    """Records; the first process dies before the k-th call, whoever comes then goes on."""

    def __init__(self, root: Path, k: int) -> None:
        super().__init__(root)
        self.k = k

    def reach(self, number: int, call: Call, action: Callable[[], T]) -> T:
        if number == self.k:
            raise Died
        return super().reach(number, call, action)


def _cut_after(recorder: RecordingCalls, scratch: Path) -> Iterator[Path]:
    """The trees that a power cut may leave now."""
    total = len(recorder.recording.steps)
    for number, state in enumerate(crash_states(recorder.recording)):
        if state.made == total:
            materialise(state.nodes, scratch / str(number))
            yield scratch / str(number)
            shutil.rmtree(scratch / str(number))


@each_case
def test_what_a_dead_writer_left_is_on_the_disk_before_it_is_answered(
    case: Case, scratch: Path
) -> None:
    for k in range(1, _calls_of(case, scratch / "whole") + 1):
        root = scratch / f"died-{k}"
        case.prepare(root)
        journal, recorder = case.open(root), DyingOnce(root, k)
        with calls.use(recorder):
            with pytest.raises(Died):
                journal.append(case.wanted)
            got = case.open(root).append(case.wanted)
        for after in _cut_after(recorder, scratch):
            found = case.open(after).read(case.before and case.before - 1).events
            assert list(found) == got, k
        recorder.close()


@each_case
def test_what_a_reader_was_shown_is_not_taken_back_by_a_power_cut(
    case: Case, scratch: Path
) -> None:
    most = 0
    for k in range(1, _calls_of(case, scratch / "whole") + 1):
        root = scratch / f"died-{k}"
        case.prepare(root)
        journal, recorder = case.open(root), DyingOnce(root, k)
        with calls.use(recorder):
            with pytest.raises(Died):
                journal.append(case.wanted)
            shown = case.open(root).read(0).events
        most = max(most, len(shown))
        for after in _cut_after(recorder, scratch):
            case.open(after).append([event(100)])
            assert case.open(after).read(0, max(1, len(shown))).events[: len(shown)] == shown, k
        recorder.close()
    assert most > case.before, "no death left anything to be shown"


def _put_index(which: str, recorded: Path, root: Path) -> None:
    """The index isn't written by the calls that are recorded: it may be of any earlier moment.

    A new one is ahead of what the cut left, as after a disk that lied or a copy put back.
    """
    if which == "old" or not (root / FOLDER).is_dir():
        return
    for each in (root / FOLDER).glob(f"{NAME}*"):
        each.unlink()
    if which == "new":
        shutil.copy(recorded / FOLDER / NAME, root / FOLDER / NAME)


def test_whole_lines_of_a_batch_that_failed_keep_their_sequences(scratch: Path) -> None:
    case = CASES[1]
    root = scratch / "tree"
    case.prepare(root)
    journal = case.open(root)
    writes = 2 + 1  # two pieces are written, the third is refused
    with (
        calls.use(FailingCalls(writes + 1, errno.ENOSPC, "before")),
        pytest.raises(StorageUnavailable, match="free space"),
    ):
        journal.append(BATCH)
    kept = len(sequences(journal))
    assert 4 < kept < 8
    assert [each.seq for each in journal.append(BATCH[::-1])] != [8, 7, 6, 5]
    assert revisions(journal)[:kept] == list(range(1, kept + 1))
    assert list((root / FOLDER).glob("*.torn-*")) == []
