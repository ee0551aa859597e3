"""Session documents on disk: conditional commits, receipts for ever, damage set aside."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from muster.domain.changes import OperationDone, PromptAccepted
from muster.domain.errors import (
    ActiveTurnExists,
    EndpointStale,
    IdempotencyConflict,
    ResourceGone,
    RevisionConflict,
    StateCorrupt,
)
from muster.domain.session_document import encode
from muster.stores.files import limits, paths
from tests.domain import builders as b
from tests.stores.files.sessions_on_disk import DOCUMENT, FOLDER, REF, Disk, reason_of


@pytest.fixture
def disk(tmp_path: Path) -> Disk:
    """A state root with one session that nobody has prompted."""
    made = Disk.at(tmp_path / "state")
    made.sessions.create(b.idle())
    return made


# Commits


def test_a_commit_is_on_disk_when_it_answers(disk: Disk) -> None:
    disk.commit(b.prompt("p1"))
    found = Disk.at(disk.tree.root).document
    assert found.revision == 2
    assert set(found.canonical.turns) == {b.turn_of("p1")}


def test_a_commit_that_expects_another_revision_changes_nothing_and_says_which_there_is(
    disk: Disk,
) -> None:
    disk.commit(b.prompt("p1"))
    before = disk.file(DOCUMENT).read_bytes()
    for expected in (1, 3):
        late = disk.sessions.commit(REF, expected, b.stop("late"), b.moment())
        assert late.outcome is None
        assert late.document.revision == 2
    assert disk.file(DOCUMENT).read_bytes() == before


def test_a_commit_that_changes_nothing_is_not_written(disk: Disk) -> None:
    disk.commit(b.prompt("p1"))
    before = disk.file(DOCUMENT).stat()
    again = disk.sessions.commit(REF, 2, b.prompt("p1"), b.moment(5))
    assert isinstance(again.outcome, PromptAccepted)
    assert again.outcome.repeated
    assert again.document.revision == 2
    after = disk.file(DOCUMENT).stat()
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


def test_a_refused_commit_changes_nothing(disk: Disk) -> None:
    disk.commit(b.prompt("p1"))
    before = disk.file(DOCUMENT).read_bytes()
    with pytest.raises(ActiveTurnExists):
        disk.commit(b.prompt("p2"))
    assert disk.file(DOCUMENT).read_bytes() == before


def test_a_receipt_that_the_wait_has_recorded_meanwhile_is_in_nobody_s_way(disk: Disk) -> None:
    accepted = disk.commit(b.prompt("p1"))
    recorded = disk.commit(b.delivered("p1"))
    follow_up = b.follow_up("p2")
    for delivered in (None, b.turn_of("p2")):
        late = disk.sessions.commit(REF, accepted.revision, follow_up, b.moment(), delivered)
        assert late.outcome is None
    assert disk.document == recorded
    turn = b.turn_of("p1")
    done = disk.sessions.commit(REF, accepted.revision, follow_up, b.moment(), turn)
    assert isinstance(done.outcome, PromptAccepted)
    later = disk.sessions.commit(REF, accepted.revision, b.follow_up("p3"), b.moment(), turn)
    assert later.outcome is None


def test_of_commits_at_the_same_revision_in_several_threads_one_wins(disk: Disk) -> None:
    """Each thread is a process of its own to the lock."""
    won: list[str] = []
    ready = threading.Barrier(6)

    def commit(name: str) -> None:
        own = Disk.at(disk.tree.root)
        ready.wait()
        done = own.sessions.commit(REF, 1, b.prompt(name), b.moment())
        if done.outcome is not None:
            won.append(name)

    threads = [threading.Thread(target=commit, args=(f"p{number}",)) for number in range(6)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert len(won) == 1
    assert set(disk.document.canonical.turns) == {b.turn_of(won[0])}


def test_a_commit_for_an_incarnation_that_was_replaced_is_stale(disk: Disk) -> None:
    other = REF.model_copy(update={"incarnation": "inc-0"})
    with pytest.raises(EndpointStale) as stale:
        disk.sessions.commit(other, 1, b.prompt("p1"), b.moment())
    assert stale.value.details["incarnation"] == b.INCARNATION


def test_a_session_that_never_was_is_gone_not_corrupt(disk: Disk) -> None:
    nobody = REF.model_copy(update={"session_id": "nobody"})
    assert disk.sessions.find(b.NAMESPACE, "nobody") is None
    with pytest.raises(ResourceGone):
        disk.sessions.require(nobody)


def test_a_creation_repeated_after_its_session_went_on_adopts_what_is_there(disk: Disk) -> None:
    disk.commit(b.prompt("p1"))
    assert disk.sessions.create(b.idle()).revision == 2
    assert disk.document.revision == 2


# Receipts


@pytest.fixture
def aged(disk: Disk) -> Disk:
    """A process that has just opened a session whose first requests left the document."""
    disk.run("p1")
    disk.commit(b.report("r1", of="p1"), b.stop("x1"))
    disk.publish()
    disk.run("p2", minutes=400 * 24 * 60)
    assert b.key("p1") not in disk.document.requests.prompts
    return Disk.at(disk.tree.root)


def test_the_first_receipt_answers_after_years_and_a_restart(aged: Disk) -> None:
    before = aged.file(DOCUMENT).read_bytes()
    told = aged.answer(b.follow_up("p1"), PromptAccepted, minutes=800 * 24 * 60)
    assert (told.turn_id, told.position, told.repeated) == (b.turn_of("p1"), 0, True)
    assert aged.file(DOCUMENT).read_bytes() == before


def test_an_operation_hears_its_first_answer_after_years(aged: Disk) -> None:
    told = aged.answer(b.stop("x1"), OperationDone, minutes=800 * 24 * 60)
    assert told.repeated
    assert told.response["status"] == "nothing_running"


def test_another_request_under_an_old_key_is_a_conflict_that_names_the_fields(aged: Disk) -> None:
    with pytest.raises(IdempotencyConflict) as refused:
        aged.commit(b.follow_up("p1", "something else"))
    assert refused.value.details["fields"] == ["text"]
    with pytest.raises(IdempotencyConflict) as refused:
        aged.commit(b.abort("p1", "then this"))
    assert refused.value.details["fields"] == ["operation"]


# Damage

Damage = Callable[[Path], None]


def _truncated(path: Path) -> None:
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2])


def _zero_filled(path: Path) -> None:
    path.write_bytes(b"\0" * path.stat().st_size)


def _empty(path: Path) -> None:
    path.write_bytes(b"")


def _torn(path: Path) -> None:
    """Its first block is the new one, the rest never reached the disk."""
    data = path.read_bytes()
    path.write_bytes(data[:512] + b"\0" * (len(data) - 512))


def _wrongly_typed(path: Path) -> None:
    document = json.loads(path.read_text())
    document["revision"] = str(document["revision"])
    path.write_text(json.dumps(document))


def _breaking_a_rule(path: Path) -> None:
    document = json.loads(path.read_text())
    document["canonical"]["queue"]["active_turn_id"] = "turn-nobody"
    path.write_text(json.dumps(document))


def _of_another_session(path: Path) -> None:
    document = json.loads(path.read_text())
    document["session_id"] = document["canonical"]["session"]["session_id"] = "s-2"
    path.write_text(json.dumps(document))


def _too_large(path: Path) -> None:
    with path.open("r+b") as file:
        file.truncate(limits.SESSION_DOCUMENT + 1)


def _a_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def _a_link(path: Path) -> None:
    kept = path.with_name("elsewhere.json")
    path.rename(kept)
    path.symlink_to(kept)


def _a_fifo(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


each_damage = pytest.mark.parametrize(
    "damage",
    [
        _truncated,
        _zero_filled,
        _empty,
        _torn,
        _wrongly_typed,
        _breaking_a_rule,
        _of_another_session,
        _too_large,
        _a_folder,
        _a_link,
        _a_fifo,
    ],
    ids=lambda each: each.__name__.strip("_"),
)


@each_damage
def test_a_damaged_document_is_set_aside_with_its_reason_and_nothing_takes_its_place(
    disk: Disk, damage: Damage
) -> None:
    damage(disk.file(DOCUMENT))
    left = os.lstat(disk.file(DOCUMENT))
    opened = Disk.at(disk.tree.root)
    with pytest.raises(StateCorrupt, match=f"muster session repair {b.SESSION}") as found:
        opened.commit(b.prompt("p1"))
    aside = str(found.value.details["aside"])
    assert os.lstat(opened.file(aside)).st_ino == left.st_ino
    assert reason_of(opened, aside)
    assert not opened.file(DOCUMENT).exists()


@each_damage
def test_other_sessions_stay_listed_and_usable_beside_a_damaged_one(
    disk: Disk, damage: Damage
) -> None:
    healthy = b.idle()
    session = healthy.canonical.session.model_copy(update={"session_id": "s-2"})
    canonical = healthy.canonical.model_copy(update={"session": session})
    disk.sessions.create(
        healthy.model_copy(update={"session_id": "s-2", "canonical": canonical, "outbox": {}})
    )
    damage(disk.file(DOCUMENT))
    opened = Disk.at(disk.tree.root)
    assert opened.sessions.session_ids(b.NAMESPACE) == [b.SESSION, "s-2"]
    with pytest.raises(StateCorrupt):
        opened.sessions.find(b.NAMESPACE, b.SESSION)
    other = REF.model_copy(update={"session_id": "s-2"})
    done = opened.sessions.commit(other, 1, b.prompt("p1"), b.moment())
    assert isinstance(done.outcome, PromptAccepted)


def test_what_is_no_session_is_not_listed(disk: Disk) -> None:
    folder = disk.file(paths.sessions_folder(b.NAMESPACE))
    (folder / ".trash").mkdir()
    (folder / "a b").mkdir()
    assert disk.sessions.session_ids(b.NAMESPACE) == [b.SESSION]


def test_a_session_stays_corrupt_for_everybody_until_a_document_is_restored(disk: Disk) -> None:
    good = disk.commit(b.prompt("p1"))
    _zero_filled(disk.file(DOCUMENT))
    for _ in range(2):
        opened = Disk.at(disk.tree.root)
        with pytest.raises(StateCorrupt):
            opened.sessions.find(b.NAMESPACE, b.SESSION)
        with pytest.raises(StateCorrupt):
            opened.sessions.require(REF)
        with pytest.raises(StateCorrupt):
            opened.sessions.create(b.idle())
    assert len(disk.sessions.set_aside_files(b.NAMESPACE, b.SESSION)) == 1
    disk.sessions.restore(good)
    assert Disk.at(disk.tree.root).sessions.find(b.NAMESPACE, b.SESSION) == good


def test_a_document_that_is_there_again_is_never_overwritten_by_a_repair(disk: Disk) -> None:
    good = disk.commit(b.prompt("p1"))
    with pytest.raises(RevisionConflict):
        disk.sessions.restore(b.idle())
    assert disk.document == good


def test_each_damaged_document_is_kept_under_a_name_of_its_own(disk: Disk) -> None:
    good = disk.commit(b.prompt("p1"))
    for number in range(3):
        disk.file(DOCUMENT).write_text(f"damage {number}")
        with pytest.raises(StateCorrupt):
            Disk.at(disk.tree.root).sessions.read(b.NAMESPACE, b.SESSION)
        disk.sessions.restore(good)
    kept = disk.sessions.set_aside_files(b.NAMESPACE, b.SESSION)
    texts = [disk.file(f"{FOLDER}/{name}").read_text() for name in kept]
    assert texts == ["damage 0", "damage 1", "damage 2"]


def test_a_document_changed_by_hand_within_the_rules_is_taken_as_it_is(disk: Disk) -> None:
    disk.commit(b.prompt("p1"))
    document = disk.document
    session = document.canonical.session.model_copy(update={"title": "by hand"})
    canonical = document.canonical.model_copy(update={"session": session})
    disk.file(DOCUMENT).write_bytes(encode(document.model_copy(update={"canonical": canonical})))
    assert disk.document.canonical.session.title == "by hand"


def test_a_removed_document_is_gone_and_another_incarnation_keeps_its_own(disk: Disk) -> None:
    with pytest.raises(EndpointStale):
        disk.sessions.remove(REF.model_copy(update={"incarnation": "inc-0"}))
    assert disk.sessions.remove(REF)
    assert disk.sessions.remove(REF), "what an interrupted removal left can be removed again"
    assert not disk.file(FOLDER).exists()
    with pytest.raises(ResourceGone):
        disk.sessions.require(REF)
