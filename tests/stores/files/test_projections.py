"""Readers' files: equal to the document after anything, mended, and enough to rebuild it from."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from muster.domain.projection import Rebuilt, rebuild
from muster.domain.session_document import OutboxEvent, SessionDocument
from muster.domain.session_rules import check_document
from muster.stores.files import calls
from tests.domain import builders as b
from tests.domain.lives import Life
from tests.faults.file_shim import CountingCalls, Died, DyingCalls
from tests.faults.scratch import scratch_folder
from tests.stores.files.sessions_on_disk import PROJECTION, Disk

LIVES = 30
STEPS = 40


@pytest.fixture
def scratch() -> Iterator[Path]:
    with scratch_folder() as folder:
        yield folder


@pytest.fixture
def disk(tmp_path: Path) -> Disk:
    return Disk.at(tmp_path / "state")


def _files(disk: Disk) -> dict[str, bytes]:
    folder = disk.file(PROJECTION)
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def _of(document: SessionDocument, root: Path) -> dict[str, bytes]:
    """The files of a document as a folder without any gets them."""
    fresh = Disk.at(root)
    fresh.projections.repair(document)
    return _files(fresh)


def _rebuilt(disk: Disk) -> Rebuilt:
    session = disk.projections.read_session(b.NAMESPACE, b.SESSION)
    assert session is not None
    return rebuild(
        session,
        disk.projections.read_turns(b.NAMESPACE, b.SESSION),
        disk.projections.read_reports(b.NAMESPACE, b.SESSION),
    )


def _owed(document: SessionDocument) -> dict[str, OutboxEvent]:
    """What a projection keeps of the outbox: what the journal doesn't have."""
    return {k: v for k, v in document.outbox.items() if v.public_delivery.journal_seq is None}


def _life(seed: int) -> Iterator[SessionDocument]:
    """The documents of a random life, each different from the one before."""
    life = Life(seed)
    last = life.document
    yield last
    for _ in range(STEPS):
        life.step()
        if life.document is not last:
            last = life.document
            yield last


# What stands in the files


def test_the_files_equal_the_document_after_any_sequence(scratch: Path) -> None:
    for seed in range(LIVES):
        disk = Disk.at(scratch / str(seed))
        for number, document in enumerate(_life(seed)):
            disk.projections.project(document)
            if number % 8 == 0:
                wanted = _of(document, scratch / f"{seed}-{number}")
                assert _files(disk) == wanted, (seed, number)
        assert _files(disk) == _of(document, scratch / f"{seed}-end"), seed


def test_a_process_that_wrote_nothing_before_mends_whatever_is_stale(scratch: Path) -> None:
    """Every commit may be projected by another worker, and some by none."""
    for seed in range(LIVES):
        root = scratch / str(seed)
        for number, document in enumerate(_life(seed)):
            if number % 3 == seed % 3:
                Disk.at(root).projections.project(document)
        Disk.at(root).projections.project(document)
        assert _files(Disk.at(root)) == _of(document, scratch / f"{seed}-end"), seed


def test_only_what_changed_is_written(disk: Disk) -> None:
    document = b.reported()
    disk.projections.project(document)
    assert disk.projections.project(document) == 0
    before = {name: disk.file(f"{PROJECTION}/{name}").stat().st_ino for name in _files(disk)}
    disk.projections.project(b.after(document, b.prompt("p2")))
    after = {name: disk.file(f"{PROJECTION}/{name}").stat().st_ino for name in _files(disk)}
    changed = {name for name in after if after[name] != before.get(name)}
    assert changed == {"session.json", "active-turn.json", f"turns/{b.turn_of('p2')}.json"}


def test_the_session_s_own_file_comes_last_so_that_its_revision_is_all_there(
    disk: Disk,
) -> None:
    counting = CountingCalls()
    with calls.use(counting):
        disk.projections.project(b.reported())
    renamed = [call.target for call in counting.made if call.name == "rename"]
    assert renamed[-1] == "session.json"
    assert renamed.count("session.json") == 1


def test_a_death_before_any_file_call_leaves_files_that_the_next_process_mends(
    scratch: Path,
) -> None:
    before, after = b.reported(), b.after(b.reported(), b.prompt("p2"), b.report("r2", of="p2"))
    wanted = _of(after, scratch / "wanted")
    counting = CountingCalls()
    disk = Disk.at(scratch / "counted")
    disk.projections.project(before)
    with calls.use(counting):
        disk.projections.project(after)
    for k in range(1, counting.count + 1):
        root = scratch / str(k)
        disk = Disk.at(root)
        disk.projections.project(before)
        with calls.use(DyingCalls(k)), pytest.raises(Died):
            disk.projections.project(after)
        opened = Disk.at(root)
        session = opened.projections.read_session(b.NAMESPACE, b.SESSION)
        assert session is not None
        if session.revision == after.revision:
            names = {name for name in wanted if not name.startswith(".")}
            assert {n: v for n, v in _files(opened).items() if n in names} == wanted, k
        opened.projections.project(after)
        found = {n: v for n, v in _files(opened).items() if "/.tmp" not in f"/{n}"}
        assert {n: v for n, v in found.items() if n in wanted} == wanted, k


# Mending


@pytest.mark.parametrize("garbage", [b"", b"null", b"\0" * 100, b"{}", None], ids=repr)
def test_a_missing_or_damaged_file_is_mended_by_a_repair(disk: Disk, garbage: bytes | None) -> None:
    document = b.reported()
    disk.projections.project(document)
    wanted = _files(disk)
    for name in wanted:
        path = disk.file(f"{PROJECTION}/{name}")
        if garbage is None:
            path.unlink()
        elif garbage == wanted[name]:
            continue
        else:
            path.write_bytes(garbage)
        assert Disk.at(disk.tree.root).projections.repair(document) == 1, name
        assert _files(disk) == wanted


def test_a_file_that_is_too_large_or_belongs_to_nothing_is_mended(disk: Disk) -> None:
    document = b.reported()
    disk.projections.project(document)
    wanted = _files(disk)
    stray = disk.file(f"{PROJECTION}/turns/turn-nobody.json")
    stray.write_bytes(b"{}")
    with disk.file(f"{PROJECTION}/session.json").open("r+b") as file:
        file.truncate(4 << 20)
    assert Disk.at(disk.tree.root).projections.repair(document) == 2
    assert _files(disk) == wanted


# Rebuilding


def test_a_document_rebuilt_from_its_files_is_valid_and_equal_but_for_what_was_published(
    scratch: Path,
) -> None:
    for seed in range(LIVES):
        for number, document in enumerate(_life(seed)):
            if number % 5 != seed % 5:
                continue
            disk = Disk.at(scratch / f"{seed}-{number}")
            disk.projections.project(document)
            rebuilt = _rebuilt(disk)
            check_document(rebuilt.document)
            wanted = document.model_copy(
                update={"revision": document.revision + 1, "outbox": _owed(document)}
            )
            assert rebuilt.document == wanted, (seed, number)
            assert len(rebuilt.notes) == 1, (seed, number)


def test_a_document_rebuilt_from_files_of_different_moments_is_valid(scratch: Path) -> None:
    """A projection that was killed half-way: turns of one revision, the session of another."""
    for seed in range(LIVES):
        documents = list(_life(seed))
        for number in range(0, len(documents) - 1, 4):
            older, newer = documents[number], documents[-1]
            disk = Disk.at(scratch / f"{seed}-{number}")
            disk.projections.project(older)
            own = disk.file(f"{PROJECTION}/session.json").read_bytes()
            disk.projections.project(newer)
            disk.file(f"{PROJECTION}/session.json").write_bytes(own)
            check_document(_rebuilt(disk).document)


def test_turns_whose_files_are_lost_are_left_out_and_named(scratch: Path) -> None:
    document = b.after(b.queued(), b.report("r1", of="f2"))
    disk = Disk.at(scratch)
    disk.projections.project(document)
    disk.file(f"{PROJECTION}/turns/{b.turn_of('f1')}.json").write_text("\0\0\0")
    disk.file(f"{PROJECTION}/turns/{b.turn_of('f2')}.json").unlink()
    rebuilt = _rebuilt(disk)
    check_document(rebuilt.document)
    assert set(rebuilt.document.canonical.turns) == {b.turn_of("p1")}
    assert rebuilt.document.canonical.queue.active_turn_id == b.turn_of("p1")
    assert "2 queued turns have no file and are lost" in rebuilt.notes
    assert "1 reports of turns without a file were left out" in rebuilt.notes


def test_any_one_file_may_be_lost_and_what_is_rebuilt_is_valid(scratch: Path) -> None:
    for name, make in b.VALID.items():
        disk = Disk.at(scratch / name)
        disk.projections.project(make())
        for number, lost in enumerate(sorted(_files(disk))):
            if lost == "session.json":
                continue
            copy = Disk.at(scratch / f"{name}-{number}")
            copy.projections.project(make())
            copy.file(f"{PROJECTION}/{lost}").unlink()
            check_document(_rebuilt(copy).document)


def test_without_a_readable_session_file_nothing_is_made_up(disk: Disk) -> None:
    disk.projections.project(b.done())
    disk.file(f"{PROJECTION}/session.json").write_bytes(b"\0" * 40)
    assert disk.projections.read_session(b.NAMESPACE, b.SESSION) is None
    kept = disk.file(f"{PROJECTION}/session.json.aside-1")
    assert kept.read_bytes() == b"\0" * 40
    assert json.loads(kept.with_name(f"{kept.name}.reason").read_text())["name"] == "session.json"
