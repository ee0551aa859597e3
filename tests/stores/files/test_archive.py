"""What leaves a document is in the archive before the document shrinks, and answers for ever."""

from __future__ import annotations

import errno
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from muster.domain.changes import Change, PromptAccepted
from muster.domain.errors import StateCorrupt, StorageUnavailable
from muster.domain.session_document import encode
from muster.stores.files import calls, paths
from tests.domain import builders as b
from tests.faults import file_shim
from tests.faults.crash_states import RecordingCalls, crash_states, materialise
from tests.faults.file_shim import CountingCalls, Died, DyingCalls, FailingCalls, When
from tests.faults.scratch import scratch_folder
from tests.stores.files.sessions_on_disk import DAY, REF, Disk, records_of

EAGER = 256 * 1024
LONG = "x" * 20_000
NEXT: Change = b.follow_up("next", "y" * 32_000)
"""Its text stands twice in the document, which passes the size at which turns leave."""
LATER = b.moment(40 * DAY)


@pytest.fixture(scope="module")
def scratch() -> Iterator[Path]:
    with scratch_folder() as folder:
        yield folder


@pytest.fixture(autouse=True)
def in_whole_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each file in one write: how a file is torn is tested with small ones."""
    monkeypatch.setattr(file_shim, "CHUNK", 1 << 20)


@pytest.fixture(scope="module")
def full(scratch: Path) -> Path:
    """A root whose next commit takes turns, requests, reports and events out of the document."""
    root = scratch / "full"
    disk = Disk.at(root)
    disk.sessions.create(b.idle())
    names = iter(range(1_000))
    while len(encode(disk.document)) < EAGER - 45_000:
        disk.run(f"p{next(names)}", LONG)
    disk.commit(b.follow_up("asks"), b.events(b.started(90, "asks")))
    disk.commit(b.events(b.gate(91, "g1", "asks")), b.answer("w1", "g1"), b.settled("w1"))
    disk.commit(b.events(b.ended(92, "asks", text="well")), b.report("r1", of="asks"), b.stop("x1"))
    disk.publish()
    assert disk.archived() == []
    return root


def _copy(full: Path, to: Path) -> Disk:
    shutil.copytree(full, to)
    return Disk.at(to)


def _commit(disk: Disk) -> None:
    revision = disk.document.revision
    disk.sessions.commit(REF, revision, NEXT, LATER)


def _lost(disk: Disk, before: dict[str, set[str]]) -> dict[str, set[str]]:
    held = disk.records()
    return {part: keys - held[part] for part, keys in before.items() if keys - held[part]}


def test_the_document_shrinks_and_document_and_archive_hold_everything(
    full: Path, scratch: Path
) -> None:
    disk = _copy(full, scratch / "shrinks")
    before = records_of(disk.document)
    _commit(disk)
    after = records_of(disk.document)
    assert {part for part in before if before[part] - after[part]} >= {
        "turns",
        "prompts",
        "reports",
        "outbox",
    }
    assert len(encode(disk.document)) < EAGER
    assert _lost(disk, before) == {}


def test_a_death_before_any_file_call_of_a_compaction_loses_no_record(
    full: Path, scratch: Path
) -> None:
    counting = CountingCalls()
    disk = _copy(full, scratch / "counted")
    before = records_of(disk.document)
    with calls.use(counting):
        _commit(disk)
    assert counting.count > 20
    for k in range(1, counting.count + 1):
        root = scratch / f"died-{k}"
        disk = _copy(full, root)
        with calls.use(DyingCalls(k)), pytest.raises(Died):
            _commit(disk)
        opened = Disk.at(root)
        assert _lost(opened, before) == {}, k
        told = opened.answer(NEXT, PromptAccepted, minutes=40 * DAY)
        assert told.turn_id == b.turn_of("next"), k
        assert _lost(opened, before) == {}, ("repeated", k)
        shutil.rmtree(root)


def test_a_power_cut_at_any_moment_of_a_compaction_loses_no_record(
    full: Path, scratch: Path
) -> None:
    root = scratch / "cut"
    disk = _copy(full, root)
    before = records_of(disk.document)
    recorder = RecordingCalls(root)
    with calls.use(recorder):
        _commit(disk)
    states = 0
    for state in crash_states(recorder.recording):
        after = scratch / f"cut-{states}"
        states += 1
        materialise(state.nodes, after)
        assert _lost(Disk.at(after), before) == {}, (state.made, state.lost)
        shutil.rmtree(after)
    recorder.close()
    assert states > 20


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_full_disk_at_any_file_call_of_a_compaction_loses_no_record(
    full: Path, scratch: Path, when: When
) -> None:
    counting = CountingCalls()
    disk = _copy(full, scratch / f"full-{when}")
    before = records_of(disk.document)
    with calls.use(counting):
        _commit(disk)
    for k in range(1, counting.count + 1):
        root = scratch / f"full-{when}-{k}"
        disk = _copy(full, root)
        with calls.use(FailingCalls(k, errno.ENOSPC, when)):
            try:
                _commit(disk)
            except StorageUnavailable:
                assert _lost(disk, before) == {}, k
        assert disk.answer(NEXT, PromptAccepted, minutes=40 * DAY).turn_id == b.turn_of("next")
        assert _lost(disk, before) == {}, ("repeated", k)
        shutil.rmtree(root)


def test_what_is_archived_is_what_the_document_held(full: Path, scratch: Path) -> None:
    disk = _copy(full, scratch / "same")
    turns = disk.document.canonical.turns
    _commit(disk)
    archived = {key: turn for each in disk.archived() for key, turn in each.turns.items()}
    assert archived
    assert archived == {key: turns[key] for key in archived}


# Damage to the archive


@pytest.fixture
def compacted(full: Path, tmp_path: Path) -> Disk:
    """A session with an archive, as a new process opens it."""
    _commit(_copy(full, tmp_path / "state"))
    return Disk.at(tmp_path / "state")


def _only_file(disk: Disk, folder: str) -> Path:
    (found,) = disk.file(folder).glob("*.json")
    return found


RECEIPTS = paths.receipts_folder(b.NAMESPACE, b.SESSION, b.INCARNATION)
HISTORY = paths.history_folder(b.NAMESPACE, b.SESSION, b.INCARNATION)


def test_damaged_receipts_are_made_again_from_the_records_they_came_from(compacted: Disk) -> None:
    receipts = _only_file(compacted, RECEIPTS)
    whole = receipts.read_bytes()
    receipts.write_bytes(whole[:100])
    assert compacted.answer(b.follow_up("p0"), PromptAccepted).repeated
    assert _only_file(compacted, RECEIPTS).read_bytes() == whole
    assert receipts.with_name(f"{receipts.name}.aside-1").read_bytes() == whole[:100]


def test_receipts_and_records_damaged_alike_refuse_commands_rather_than_run_one_twice(
    compacted: Disk,
) -> None:
    for folder in (RECEIPTS, HISTORY):
        _only_file(compacted, folder).write_bytes(b"\0\0\0")
    with pytest.raises(StateCorrupt, match="backup"):
        compacted.commit(b.follow_up("p0"))
    assert compacted.document.revision


def test_a_damaged_record_file_is_named_and_stays(compacted: Disk) -> None:
    damaged = _only_file(compacted, HISTORY)
    damaged.write_bytes(b"{}")
    with pytest.raises(StateCorrupt, match=damaged.name):
        compacted.archive.read(REF, damaged.name)
    assert damaged.read_bytes() == b"{}"
