"""After a power cut at any moment, with any unsynced change lost, the tree can be recovered."""

from __future__ import annotations

import itertools
import os
from pathlib import Path

import pytest

from muster.stores.files import calls
from muster.stores.files.beneath import TEMPORARY_PREFIX
from tests.faults.crash_states import RecordingCalls, crash_states, materialise
from tests.faults.operations import (
    LIMIT,
    NEW,
    OLD,
    OPERATIONS,
    Operation,
    prepare,
    recover,
    violations,
)
from tests.faults.scratch import scratch_folder

pytestmark = pytest.mark.faults


def _record(operation: Operation, root: Path) -> RecordingCalls:
    tree = prepare(operation, root)
    recorder = RecordingCalls(root)
    with calls.use(recorder):
        operation.act(tree)
    return recorder


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda each: each.name)
def test_every_state_a_power_cut_may_leave_is_recovered(operation: Operation) -> None:
    with scratch_folder() as scratch:
        recorder = _record(operation, scratch / "recorded")
        steps = recorder.recording.steps
        for number, state in enumerate(crash_states(recorder.recording)):
            root = scratch / str(number)
            materialise(state.nodes, root)
            after = recover(root)
            acknowledged = state.made == len(steps)
            told = f"{state.made} of {len(steps)} calls made, lost: {state.lost}"
            assert violations(operation, after, acknowledged) == [], told
            operation.act(after)
            assert violations(operation, after, acknowledged=True) == [], f"repeated; {told}"
        recorder.close()


def _rename_without_fsync(folder: int) -> None:
    now = calls.current()
    file = now.create(folder, f"{TEMPORARY_PREFIX}careless")
    now.write(file, NEW)
    os.close(file)
    now.rename(folder, f"{TEMPORARY_PREFIX}careless", "x")
    now.fsync(folder)


def test_a_rename_without_fsync_is_found_by_the_states_it_may_leave() -> None:
    operation = next(each for each in OPERATIONS if each.name == "replace")
    with scratch_folder() as scratch:
        tree = prepare(operation, scratch / "recorded")
        recorder = RecordingCalls(tree.root)
        with calls.use(recorder), tree.folders.open("d") as folder:
            _rename_without_fsync(folder)
        contents = set()
        for number, state in zip(itertools.count(), crash_states(recorder.recording), strict=False):
            materialise(state.nodes, scratch / str(number))
            contents.add(recover(scratch / str(number)).read("d/x", limit=LIMIT))
        recorder.close()
    assert {OLD, NEW, b""} <= contents
    assert NEW[:5_000] in contents
