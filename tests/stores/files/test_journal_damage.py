"""A damaged journal: what is whole stays readable, what is torn is kept aside, appends go on."""

from __future__ import annotations

import shutil
import sqlite3
from pathlib import Path

import pytest

from muster.stores.files.journal import Journal
from muster.stores.files.journal_index import NAME, VERSION
from muster.stores.files.journal_segments import ACTIVE
from tests.stores.files.journal_events import (
    FOLDER,
    event,
    journal_at,
    revisions,
    sequences,
    several,
)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "state"


@pytest.fixture
def journal(root: Path) -> Journal:
    """Six events in two batches."""
    journal = journal_at(root)
    journal.append(several(1, 3))
    journal.append(several(4, 6))
    return journal


@pytest.fixture
def active(root: Path, journal: Journal) -> Path:
    return root / FOLDER / ACTIVE


def _torn(root: Path) -> list[bytes]:
    found = sorted((root / FOLDER).glob(f"{ACTIVE}.torn-*"))
    return [each.read_bytes() for each in found]


def _without_index(root: Path) -> None:
    for each in (root / FOLDER).glob(f"{NAME}*"):
        each.unlink()


# Torn ends


@pytest.mark.parametrize(
    "torn",
    [b'{"seq":7,"public_ev', b'{"seq":7}\n', b"\0" * 5_000, b"\xff\xfe\n\n", b"\n"],
    ids=["cut", "not ours", "zeros", "garbage", "empty line"],
)
@pytest.mark.parametrize("indexed", [True, False])
def test_a_torn_end_is_kept_aside_and_the_rest_goes_on(
    journal: Journal, root: Path, active: Path, torn: bytes, indexed: bool
) -> None:
    if not indexed:
        _without_index(root)
    with active.open("ab") as file:
        file.write(torn)
    assert sequences(journal) == [1, 2, 3, 4, 5, 6]
    assert [each.seq for each in journal.append([event(7)])] == [7]
    assert _torn(root) == [torn]
    assert sequences(journal) == [1, 2, 3, 4, 5, 6, 7]
    assert active.read_bytes().endswith(b"}\n")


def test_each_torn_end_is_kept(journal: Journal, root: Path, active: Path) -> None:
    for number in range(7, 19):
        with active.open("ab") as file:
            file.write(b"torn %d" % number)
        journal.append([event(number)])
    assert sorted(_torn(root)) == sorted(b"torn %d" % number for number in range(7, 19))
    assert sequences(journal) == list(range(1, 19))


def test_a_batch_that_misses_blocks_is_cut_off_as_a_whole(
    journal: Journal, root: Path, active: Path
) -> None:
    journal.close()
    before = root.parent / "before"
    shutil.copytree(root, before)
    start = active.stat().st_size
    journal.append([event(number, payload="x" * 3_000) for number in range(7, 12)])
    written = active.read_bytes()
    holed = written[: start + 4_000] + b"\0" * 4_096 + written[start + 8_096 :]
    (before / FOLDER / ACTIVE).write_bytes(holed)

    after = journal_at(before)
    assert sequences(after) == [1, 2, 3, 4, 5, 6, 7], "not what comes after the hole"
    assert [each.seq for each in after.append(several(7, 11))] == [7, 8, 9, 10, 11]
    assert revisions(after) == list(range(1, 12))


# Damage to what was acknowledged


@pytest.mark.parametrize("indexed", [True, False])
@pytest.mark.parametrize(("damage", "lost"), [(b'"revision":2', 2), (b'"revision":5', 5)])
def test_a_damaged_line_is_reported_and_all_others_stay_readable(
    journal: Journal, root: Path, active: Path, damage: bytes, lost: int, indexed: bool
) -> None:
    if not indexed:
        _without_index(root)
    content = active.read_bytes()
    active.write_bytes(content.replace(damage, damage[:-1] + b"8"))
    page = journal.read(0)
    assert [each.seq for each in page.events] == [seq for seq in range(1, 7) if seq != lost]
    assert page.damaged == ((lost, lost),)
    assert [each.seq for each in journal.append([event(6), event(7)])] == [6, 7]
    assert _torn(root) == []


def test_a_zeroed_block_of_an_old_batch_costs_only_its_events(
    journal: Journal, root: Path, active: Path
) -> None:
    content = active.read_bytes()
    second = content.index(b"\n") + 1
    active.write_bytes(content[:second] + b"\0" * 300 + content[second + 300 :])
    _without_index(root)
    page = journal.read(0)
    assert page.damaged == ((2, 3),)
    assert [each.seq for each in page.events] == [1, 4, 5, 6]
    assert [each.seq for each in journal.append([event(7)])] == [7]
    assert journal.read(0).events[-1].seq == 7


def test_an_event_whose_line_was_damaged_keeps_its_sequence(journal: Journal, active: Path) -> None:
    active.write_bytes(active.read_bytes().replace(b'"revision":2', b'"revision":8'))
    assert journal.append([event(2)])[0].seq == 2
    assert journal.last_seq() == 6


def test_a_damaged_old_segment_hides_no_other(root: Path) -> None:
    journal = journal_at(root, 1)
    for number in range(1, 6):
        journal.append([event(number)])
    (root / FOLDER / "journal-00000000000000000003.jsonl").write_bytes(b"gone")
    page = journal.read(0)
    assert [each.seq for each in page.events] == [1, 2, 4, 5]
    assert page.damaged == ((3, 3),)
    assert journal.append([event(6)])[0].seq == 6


# The index


def _break(index: Path) -> None:
    index.write_bytes(b"not a database" * 1_000)


def _break_inside(index: Path) -> None:
    content = index.read_bytes()
    index.write_bytes(content[:4_096] + b"\xaa" * (len(content) - 4_096))


def _empty(index: Path) -> None:
    index.write_bytes(b"")


def _newer(index: Path) -> None:
    with sqlite3.connect(index) as connection:
        connection.execute(f"PRAGMA user_version = {VERSION + 1}")
    connection.close()


def _without_tables(index: Path) -> None:
    with sqlite3.connect(index) as connection:
        connection.execute("DROP TABLE events")
    connection.close()


@pytest.mark.parametrize(
    "harm", [Path.unlink, _break, _break_inside, _empty, _newer, _without_tables]
)
def test_an_index_that_is_no_use_is_made_anew(journal: Journal, root: Path, harm: object) -> None:
    journal.close()
    assert callable(harm)
    harm(root / FOLDER / NAME)
    after = journal_at(root)
    assert [each.seq for each in after.append([event(2), event(7), event(6)])] == [2, 7, 6]
    assert revisions(after) == [1, 2, 3, 4, 5, 6, 7]


def test_an_index_removed_under_a_running_process_is_made_anew(
    journal: Journal, root: Path
) -> None:
    other = journal_at(root)
    other.append([event(7)])
    _without_index(root)
    assert [each.seq for each in journal.append([event(7), event(8)])] == [7, 8]
    assert [each.seq for each in other.append([event(8), event(9)])] == [8, 9]
    assert [each.seq for each in journal.append([event(9), event(1)])] == [9, 1]
    assert sequences(journal) == list(range(1, 10))


@pytest.mark.parametrize("lost", [b"", b"torn"], ids=["cut", "replaced"])
def test_an_index_ahead_of_the_journal_is_not_believed(
    journal: Journal, root: Path, active: Path, lost: bytes
) -> None:
    content = active.read_bytes()
    journal.append(several(7, 9))
    active.write_bytes(content + lost)
    assert [each.seq for each in journal.append([event(8), event(9)])] == [7, 8]
    assert revisions(journal) == [1, 2, 3, 4, 5, 6, 8, 9]


def test_an_index_ahead_of_a_journal_that_grew_otherwise_is_not_believed(
    journal: Journal, root: Path, active: Path
) -> None:
    journal.close()
    copy = root.parent / "copy"
    shutil.copytree(root, copy)
    journal.append(several(7, 9))
    other = journal_at(copy)
    other.append([event(number, "s2") for number in range(7, 12)])
    active.write_bytes((copy / FOLDER / ACTIVE).read_bytes())
    assert [each.seq for each in journal.append([event(7), event(8, "s2")])] == [12, 8]


def test_an_index_behind_the_journal_catches_up_across_segments(root: Path) -> None:
    journal = journal_at(root, 1_000)
    journal.append(several(1, 3))
    journal.close()
    kept = (root / FOLDER / NAME).read_bytes()
    for first in range(4, 40, 3):
        journal.append(several(first, first + 2))
    journal.close()
    (root / FOLDER / NAME).write_bytes(kept)
    after = journal_at(root, 1_000)
    assert [each.seq for each in after.append(several(1, 42))] == list(range(1, 43))
    assert sequences(after) == list(range(1, 43))
