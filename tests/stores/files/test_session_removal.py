"""What leaves the disk with a closed session, and what never does."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from muster.domain.errors import EndpointStale, StateCorrupt, UnsafePath
from muster.domain.faults import arm, disarm_all
from muster.stores.files import paths
from tests.domain import builders as b
from tests.stores.files.sessions_on_disk import DOCUMENT, FOLDER, REF, Disk

LAUNCH = f"{FOLDER}/{paths.RUNTIME}/launch-1"


@pytest.fixture
def disk(tmp_path: Path) -> Disk:
    """A session with a turn, its projection, a launch folder and some strangers' files."""
    made = Disk.at(tmp_path / "state")
    made.sessions.create(b.idle())
    made.projections.project(made.run("p1"))
    launch = made.file(LAUNCH)
    launch.mkdir(parents=True)
    (launch / "events.log").write_text("{}\n")
    return made


def files_in(folder: Path) -> list[str]:
    return sorted(str(each.relative_to(folder)) for each in folder.rglob("*") if each.is_file())


def test_nothing_is_left_of_a_session_but_a_chosen_history(disk: Disk) -> None:
    disk.sessions.remove(REF, LAUNCH)
    assert not disk.file(FOLDER).exists()


def test_a_kept_history_has_every_turn_report_and_request_of_the_document_and_is_all_there_is(
    disk: Disk,
) -> None:
    before = disk.records()
    disk.sessions.remove(REF, LAUNCH, keep_history=True)
    found = files_in(disk.file(FOLDER))
    assert found
    assert all(name.startswith(f"history/{REF.incarnation}/") for name in found)
    kept = disk.archived()[-1]
    assert {part: set(getattr(kept, part)) for part in before} == before


def test_a_removal_that_is_repeated_after_the_document_is_gone_keeps_the_kept_history(
    disk: Disk,
) -> None:
    disk.sessions.remove(REF, LAUNCH, keep_history=True)
    found = files_in(disk.file(FOLDER))
    disk.sessions.remove(REF, LAUNCH, keep_history=True)
    assert files_in(disk.file(FOLDER)) == found


def test_the_history_that_an_earlier_incarnation_was_told_to_keep_stays(disk: Disk) -> None:
    earlier = disk.file(paths.history_folder(b.NAMESPACE, b.SESSION, "inc-0"))
    earlier.mkdir(parents=True)
    (earlier / "1.json").write_text("{}")
    disk.sessions.remove(REF, LAUNCH)
    assert files_in(disk.file(FOLDER)) == ["history/inc-0/1.json"]


def test_symbolic_links_go_and_what_they_point_at_stays(disk: Disk, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "precious").write_text("mine")
    other = disk.file(paths.session_folder(b.NAMESPACE, "other"))
    other.mkdir()
    (other / "session.json").write_text("another session's")
    for place in (FOLDER, f"{FOLDER}/projection/turns", LAUNCH):
        (disk.file(place) / "to-folder").symlink_to(outside)
        (disk.file(place) / "to-file").symlink_to(outside / "precious")
        (disk.file(place) / "to-session").symlink_to(other)
        (disk.file(place) / "up").symlink_to("../..")
    disk.sessions.remove(REF, LAUNCH)
    assert not disk.file(FOLDER).exists()
    assert (outside / "precious").read_text() == "mine"
    assert (other / "session.json").read_text() == "another session's"


@pytest.mark.parametrize("place", ["projection", f"history/{REF.incarnation}"])
def test_a_link_in_a_folders_place_is_removed_and_not_followed(
    disk: Disk, tmp_path: Path, place: str
) -> None:
    outside = put_link(disk, tmp_path, place)
    disk.sessions.remove(REF, LAUNCH)
    assert files_in(outside) == ["inc-1/log", "launch-1/log"]
    assert not disk.file(FOLDER).exists()


@pytest.mark.parametrize("place", ["runtime", "history"])
def test_a_link_on_the_way_to_what_is_removed_is_refused_and_the_document_stays(
    disk: Disk, tmp_path: Path, place: str
) -> None:
    outside = put_link(disk, tmp_path, place)
    with pytest.raises(UnsafePath, match="symbolic link"):
        disk.sessions.remove(REF, LAUNCH)
    assert files_in(outside) == ["inc-1/log", "launch-1/log"]
    assert disk.file(DOCUMENT).exists()
    disk.file(f"{FOLDER}/{place}").unlink()
    disk.sessions.remove(REF, LAUNCH)
    assert not disk.file(FOLDER).exists()


def put_link(disk: Disk, tmp_path: Path, place: str) -> Path:
    """Exchange a folder of the session for a link to somebody's folder, which is returned."""
    outside = tmp_path / "outside"
    for name in ("launch-1", "inc-1"):
        (outside / name).mkdir(parents=True)
        (outside / name / "log").write_text("mine")
    folder = disk.file(f"{FOLDER}/{place}")
    if folder.exists():
        folder.rename(tmp_path / "moved")
    folder.parent.mkdir(exist_ok=True)
    folder.symlink_to(outside)
    return outside


def test_a_working_directory_within_the_sessions_own_folder_name_elsewhere_stays(
    disk: Disk,
) -> None:
    sibling = disk.file(f"{FOLDER}-work")
    sibling.mkdir()
    (sibling / "code.py").write_text("print()")
    disk.sessions.remove(REF, LAUNCH)
    assert (sibling / "code.py").exists()


def test_another_incarnations_document_stops_the_removal_before_it_touches_anything(
    disk: Disk,
) -> None:
    before = files_in(disk.tree.root)
    stale = REF.model_copy(update={"incarnation": "inc-0"})
    with pytest.raises(EndpointStale):
        disk.sessions.remove(stale, LAUNCH)
    assert files_in(disk.tree.root) == before


def test_a_document_that_was_set_aside_stops_the_removal_before_it_touches_anything(
    disk: Disk,
) -> None:
    disk.file(DOCUMENT).write_text("damage")
    with pytest.raises(StateCorrupt):
        disk.sessions.read(b.NAMESPACE, b.SESSION)
    before = files_in(disk.tree.root)
    with pytest.raises(StateCorrupt):
        disk.sessions.remove(REF, LAUNCH)
    assert files_in(disk.tree.root) == before


def test_a_late_attempt_touches_nothing_of_the_session_that_lives_again(disk: Disk) -> None:
    tombstones: list[str] = []
    held, go_on = threading.Event(), threading.Event()

    def remove_late() -> None:
        Disk.at(disk.tree.root).sessions.remove(REF, LAUNCH, is_done=is_done)

    def is_done() -> bool:
        held.set()
        return bool(tombstones)

    def wait_with_the_folder_locked() -> None:
        late.start()
        go_on.wait(0.2)

    late = threading.Thread(target=remove_late)
    arm("close.part_removed", wait_with_the_folder_locked)
    try:
        disk.sessions.remove(REF, LAUNCH, done=lambda: tombstones.append("done"))
    finally:
        disarm_all()
    again = disk.sessions.create(b.idle(), REF.incarnation.__eq__)
    late.join(10)
    assert held.is_set()
    assert disk.sessions.require(REF) == again
