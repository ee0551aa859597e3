"""After a power cut at any moment of a removal, nothing is left once it counts as done."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest

from muster.stores.files import calls, paths
from tests.domain import builders as b
from tests.faults.crash_states import RecordingCalls, crash_states, materialise
from tests.faults.scratch import scratch_folder
from tests.stores.files.sessions_on_disk import FOLDER, REF, Disk

pytestmark = pytest.mark.faults

LAUNCH = f"{FOLDER}/{paths.RUNTIME}/launch-1"
DONE = "done"


@dataclass(frozen=True)
class Case:
    """What stays beside what is removed."""

    name: str
    others: tuple[str, ...] = ()
    keep_history: bool = False


CASES = (
    Case("nothing stays"),
    Case("another launch stays", (f"{paths.RUNTIME}/launch-2/events.log",)),
    Case("another incarnation's history stays", (f"{paths.HISTORY}/inc-0/1.json",)),
    Case("its history is kept", keep_history=True),
)


def _prepare(root: Path, case: Case) -> Disk:
    disk = Disk.at(root)
    disk.sessions.create(b.idle())
    disk.projections.project(disk.run("p1"))
    for name in (f"{LAUNCH}/events.log", *(f"{FOLDER}/{each}" for each in case.others)):
        disk.file(name).parent.mkdir(parents=True, exist_ok=True)
        disk.file(name).write_text("{}\n")
    return disk


def _remove(disk: Disk, case: Case) -> None:
    disk.sessions.remove(
        REF,
        LAUNCH,
        keep_history=case.keep_history,
        is_done=lambda: disk.tree.exists(DONE),
        done=lambda: disk.tree.replace(DONE, b"", limit=10),
    )


def _left(disk: Disk, case: Case) -> list[str]:
    """The files of the session that should have gone."""
    folder = disk.file(FOLDER)
    found = [str(each.relative_to(folder)) for each in folder.rglob("*") if each.is_file()]
    kept = f"{paths.HISTORY}/{REF.incarnation}/" if case.keep_history else "none"
    return [each for each in found if each not in case.others and not each.startswith(kept)]


@pytest.mark.parametrize("case", CASES, ids=lambda each: each.name)
def test_what_a_power_cut_leaves_is_removed_again_or_was_gone(case: Case) -> None:
    with scratch_folder() as scratch:
        disk = _prepare(scratch / "recorded", case)
        recorder = RecordingCalls(disk.tree.root)
        with calls.use(recorder):
            _remove(disk, case)
        seen = set()
        for number, state in enumerate(crash_states(recorder.recording)):
            root = scratch / str(number)
            materialise(state.nodes, root)
            after = Disk.at(root)
            told = f"{state.made} calls made, lost: {state.lost}"
            done = after.tree.exists(DONE)
            seen.add((done, bool(_left(after, case))))
            assert not done or _left(after, case) == [], told
            _remove(after, case)
            assert _left(after, case) == [], f"repeated; {told}"
            if case.keep_history:
                assert len(after.archive.segments(REF)) == 1, told
            shutil.rmtree(root)
        recorder.close()
    assert {(False, True), (True, False)} <= seen
