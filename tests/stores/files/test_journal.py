"""The journal: one order without a gap, each event once, readable from anywhere."""

from __future__ import annotations

import json
import os
import stat
import threading
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from pathlib import Path

import pytest

from muster.domain.errors import (
    InvalidInput,
    LimitExceeded,
    ResyncNeeded,
    StorageUnavailable,
    UnsafePath,
)
from muster.domain.public_events import EVENT_BATCH
from muster.stores.files import calls
from muster.stores.files.journal import Journal
from muster.stores.files.journal_segments import ACTIVE
from muster.stores.files.private import PrivateTree
from tests.faults.file_shim import CountingCalls
from tests.stores.files.journal_events import (
    FOLDER,
    event,
    journal_at,
    revisions,
    sequences,
    several,
)

SMALL_SEGMENT = 2_000


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "state"


@pytest.fixture
def journal(root: Path) -> Journal:
    return journal_at(root)


def _segments(root: Path) -> list[str]:
    return sorted(each.name for each in (root / FOLDER).glob("journal-*.jsonl"))


# Appending


def test_events_get_sequences_from_one_without_a_gap(journal: Journal) -> None:
    assert journal.last_seq() == 0
    assert [each.seq for each in journal.append(several(1, 3))] == [1, 2, 3]
    assert [each.seq for each in journal.append(several(1, 2, "s2"))] == [4, 5]
    assert journal.last_seq() == 5
    assert sequences(journal) == [1, 2, 3, 4, 5]


def test_an_event_that_the_journal_has_keeps_its_first_sequence(
    journal: Journal, root: Path
) -> None:
    journal.append(several(1, 3))
    again = journal_at(root).append([event(2), event(4), event(4), event(1)])
    assert [each.seq for each in again] == [2, 4, 4, 1]
    assert revisions(journal) == [1, 2, 3, 4]


def test_a_known_event_is_answered_as_the_journal_has_it(journal: Journal) -> None:
    first = journal.append([event(1, payload="first")])
    assert journal.append([event(1, payload="second")]) == first
    assert journal.read(0).events == tuple(first)


def test_what_is_read_is_what_was_appended(journal: Journal) -> None:
    odd = event(1).model_copy(
        update={"payload": {"ключ": 'a\n"b"\0\u2028', "n": None, "f": 0.5, "b": True, "i": -3}}
    )
    assert journal.append([odd])[0].payload == odd.payload
    assert journal.read(0).events[0].payload == odd.payload


def test_each_line_is_one_json_object_with_the_events_members(journal: Journal, root: Path) -> None:
    journal.append(several(1, 2))
    found = [json.loads(line) for line in (root / FOLDER / ACTIVE).read_text().splitlines()]
    assert [each["seq"] for each in found] == [1, 2]
    assert list(found[0])[:10] == [
        "seq",
        "public_event_id",
        "namespace_id",
        "session_id",
        "incarnation",
        "revision",
        "kind",
        "entity",
        "entity_id",
        "payload",
    ]


def test_a_batch_is_one_write_and_at_most_two_syncs(journal: Journal) -> None:
    for number, first in enumerate((1, 129, 257)):
        counting = CountingCalls()
        with calls.use(counting):
            journal.append([event(revision) for revision in range(first, first + EVENT_BATCH)])
        names = [call.name for call in counting.made if call.entry not in ("", ACTIVE)]
        assert number == 0 or names == [], "only the first append makes a folder and an index"
        syncs = [call for call in counting.made if call.name == "fsync"]
        assert number == 0 or len(syncs) == 1


def test_also_a_rotating_batch_and_the_one_after_take_two_syncs(root: Path) -> None:
    journal = journal_at(root, SMALL_SEGMENT)
    journal.append(several(1, 1))
    for first in range(2, 40, 3):
        counting = CountingCalls()
        with calls.use(counting):
            journal.append(several(first, first + 2))
        assert sum(call.name == "fsync" for call in counting.made) <= 2
    assert len(_segments(root)) > 3


def test_a_batch_too_large_or_not_json_changes_nothing(journal: Journal) -> None:
    with pytest.raises(LimitExceeded, match=r"129 events .* 128 are allowed"):
        journal.append(several(1, EVENT_BATCH + 1))
    with pytest.raises(LimitExceeded, match="nothing was written"):
        journal.append([event(1), event(2, payload="x" * (2 << 20))])
    nan = event(2).model_copy(update={"payload": {"n": float("nan")}})
    with pytest.raises(InvalidInput, match="NaN"):
        journal.append([event(1), nan])
    assert journal.append([]) == []
    assert journal.last_seq() == 0


def test_threads_that_append_at_once_share_one_order(root: Path) -> None:
    shared = journal_at(root, SMALL_SEGMENT)
    answers: dict[str, list[int]] = {}

    def publish(session: str, journal: Journal) -> None:
        for number in range(1, 31, 3):
            got = journal.append(several(number, number + 2, session))
            answers.setdefault(session, []).extend(each.seq for each in got)

    threads = [
        threading.Thread(target=publish, args=(f"s{k}", shared if k % 2 else journal_at(root)))
        for k in range(4)
    ]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert sequences(shared) == list(range(1, 121))
    for session, got in answers.items():
        assert got == sorted(got)
        assert revisions(shared, session) == list(range(1, 31))


def test_a_holder_that_is_frozen_takes_one_thread_and_the_others_are_told(root: Path) -> None:
    tree = PrivateTree(root)
    journal = Journal(tree, FOLDER, turn_seconds=0.1)
    with ThreadPoolExecutor(2) as threads:
        with tree.lock(FOLDER):
            appends = [threads.submit(journal.append, [event(number)]) for number in (1, 2)]
            told, waiting = wait(appends, return_when=FIRST_EXCEPTION)
            assert len(told) == len(waiting) == 1
        with pytest.raises(StorageUnavailable, match="try again"):
            told.pop().result()
        (appended,) = waiting.pop().result()
    assert appended.seq == 1
    assert sorted(each.seq for each in journal.append([event(1), event(2)])) == [1, 2]


def test_every_file_is_private(journal: Journal, root: Path) -> None:
    journal.append(several(1, 3))
    for each in (root / FOLDER).iterdir():
        assert stat.S_IMODE(each.stat().st_mode) == 0o600, each


def test_no_symbolic_link_is_followed(journal: Journal, root: Path, tmp_path: Path) -> None:
    journal.append(several(1, 1))
    journal.close()
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_bytes((root / FOLDER / ACTIVE).read_bytes())
    before = elsewhere.read_bytes()
    (root / FOLDER / ACTIVE).unlink()
    (root / FOLDER / ACTIVE).symlink_to(elsewhere)
    with pytest.raises(UnsafePath):
        journal.append(several(2, 2))
    with pytest.raises(UnsafePath):
        journal.read(0)
    assert elsewhere.read_bytes() == before


# Reading


def test_a_reader_gets_the_exact_rest_from_any_position(root: Path) -> None:
    journal = journal_at(root, SMALL_SEGMENT)
    for first in range(1, 60, 3):
        journal.append(several(first, first + 2))
    for after in range(61):
        assert sequences(journal, after) == list(range(after + 1, 61))


def test_a_large_segment_is_read_from_its_middle(journal: Journal) -> None:
    for first in range(1, 2_001, 100):
        journal.append(several(first, first + 99))
    for after in (0, 1, 777, 1_234, 1_998, 1_999):
        assert journal.read(after, 1).events[0].seq == after + 1
    assert journal.read(2_000).events == ()


def test_a_page_says_where_the_next_begins_and_what_there_is(journal: Journal) -> None:
    empty = journal.read(0)
    assert (empty.events, empty.next_after, empty.first_available, empty.last) == ((), 0, 1, 0)
    journal.append(several(1, 10))
    page = journal.read(3, 4)
    assert [each.seq for each in page.events] == [4, 5, 6, 7]
    assert (page.next_after, page.first_available, page.last) == (7, 1, 10)
    assert journal.read(10).next_after == 10
    with pytest.raises(InvalidInput, match="positions begin at 0"):
        journal.read(-1)


def test_a_reader_without_the_index_and_beside_a_writer_misses_nothing(root: Path) -> None:
    writer, reader = journal_at(root, SMALL_SEGMENT), journal_at(root)
    done = threading.Event()

    def write() -> None:
        for first in range(1, 301, 3):
            writer.append(several(first, first + 2))
        done.set()

    thread = threading.Thread(target=write)
    thread.start()
    seen: list[int] = []
    while not done.is_set() or len(seen) < reader.last_seq():
        page = reader.read(len(seen), 50)
        assert page.damaged == ()
        seen += [each.seq for each in page.events]
    thread.join()
    assert seen == list(range(1, 301))


def test_a_reader_needs_no_right_to_write(journal: Journal, root: Path) -> None:
    journal.append(several(1, 3))
    made = CountingCalls()
    with calls.use(made):
        assert journal_at(root).read(0).last == 3
    assert {call.name for call in made.made} <= {"fsync"}


# Retention


def test_only_whole_old_segments_are_removed_and_readers_are_told_to_resync(root: Path) -> None:
    journal = journal_at(root, SMALL_SEGMENT)
    for first in range(1, 60, 3):
        journal.append(several(first, first + 2))
    before = _segments(root)
    first = journal.remove_before(30)
    assert 1 < first <= 30
    assert len(_segments(root)) < len(before)
    with pytest.raises(ResyncNeeded, match="were removed") as caught:
        journal.read(first - 2)
    assert caught.value.details == {"first_available": first}
    assert sequences(journal, first - 1) == list(range(first, 61))
    assert journal.remove_before(30) == first


def test_the_numbering_goes_on_after_everything_old_was_removed(root: Path) -> None:
    journal = journal_at(root, 1)  # each batch fills a segment
    journal.append(several(1, 3))
    journal.append(several(4, 6))
    assert journal.remove_before(1_000) == 4
    assert [each.seq for each in journal_at(root).append(several(7, 7))] == [7]


def test_a_removed_event_is_new_when_it_comes_again(root: Path) -> None:
    journal = journal_at(root, 1)
    journal.append(several(1, 1))
    journal.append(several(2, 2))
    journal.remove_before(2)
    assert [each.seq for each in journal.append([event(1), event(2)])] == [3, 2]


def test_a_reader_of_removed_segments_still_open_ends_in_a_resync(root: Path) -> None:
    journal = journal_at(root, 1)
    for number in range(1, 6):
        journal.append([event(number)])
    page = journal.read(0, 2)
    journal.remove_before(5)
    with pytest.raises(ResyncNeeded):
        journal.read(page.next_after)
    assert os.listdir(root / FOLDER).count("journal-00000000000000000005.jsonl") == 1  # noqa: PTH208
