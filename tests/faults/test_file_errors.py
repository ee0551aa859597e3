"""Each file call of each operation fails or is the last: old or new, whole, and no litter."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from pathlib import Path

import pytest

from muster.domain.errors import StorageUnavailable
from muster.stores.files import calls
from tests.faults.file_shim import CountingCalls, Died, DyingCalls, FailingCalls, When
from tests.faults.operations import OPERATIONS, Operation, prepare, recover, violations
from tests.faults.scratch import scratch_folder

pytestmark = pytest.mark.faults

ERRORS = (errno.EIO, errno.ENOSPC, errno.EDQUOT, errno.EINTR)
each_operation = pytest.mark.parametrize("operation", OPERATIONS, ids=lambda each: each.name)


@pytest.fixture
def scratch() -> Iterator[Path]:
    with scratch_folder() as folder:
        yield folder


def _calls_of(operation: Operation, root: Path) -> int:
    tree = prepare(operation, root)
    counting = CountingCalls()
    with calls.use(counting):
        operation.act(tree)
    assert violations(operation, tree, acknowledged=True) == []
    return counting.count


@each_operation
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("number", ERRORS, ids=lambda each: errno.errorcode[each])
def test_an_error_at_any_call_leaves_old_or_new_whole_and_no_litter(
    operation: Operation, number: int, when: When, scratch: Path
) -> None:
    total = _calls_of(operation, scratch / "whole")
    for k in range(1, total + 1):
        tree = prepare(operation, scratch / str(k))
        failing = FailingCalls(k, number, when)
        acknowledged = True
        with calls.use(failing):
            try:
                operation.act(tree)
            except (StorageUnavailable, OSError):  # OSError: the dying writer's own call
                acknowledged = False
        found = recover(tree.root) if operation.after_a_death else tree
        assert violations(operation, found, acknowledged) == [], (k, failing.made[k - 1])
        operation.act(tree)
        assert violations(operation, tree, acknowledged=True) == [], ("repeated", k)


@each_operation
def test_a_death_before_any_call_is_made_good_by_a_sweep_and_a_repetition(
    operation: Operation, scratch: Path
) -> None:
    total = _calls_of(operation, scratch / "whole")
    for k in range(1, total + 2):
        tree = prepare(operation, scratch / str(k))
        acknowledged = True
        with calls.use(DyingCalls(k)):
            try:
                operation.act(tree)
            except Died:
                acknowledged = False
        after = recover(tree.root)
        assert violations(operation, after, acknowledged) == [], k
        operation.act(after)
        assert violations(operation, after, acknowledged=True) == [], ("repeated", k)


def test_a_failed_fsync_is_never_repeated_on_the_same_descriptor(scratch: Path) -> None:
    operation = next(each for each in OPERATIONS if each.name == "replace")
    tree = prepare(operation, scratch / "tree")
    counting = CountingCalls()
    with calls.use(counting):
        operation.act(tree)
    syncs = [k for k, call in enumerate(counting.made, 1) if call.name == "fsync"]
    assert len(syncs) == 2
    for k in syncs:
        failing = FailingCalls(k, errno.EIO, "after")
        with calls.use(failing), pytest.raises(StorageUnavailable, match=r"check the disk"):
            operation.act(tree)
        assert "fsync" not in [call.name for call in failing.made[k:]]


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EROFS])
def test_a_refused_write_says_what_where_and_what_to_do(number: int, scratch: Path) -> None:
    operation = next(each for each in OPERATIONS if each.name == "replace")
    tree = prepare(operation, scratch / "tree")
    with calls.use(FailingCalls(2, number, "before")), pytest.raises(StorageUnavailable) as caught:
        operation.act(tree)
    text = caught.value.message
    assert text.startswith(f"can't write {tree.root}/d/x: ")
    assert errno.errorcode[number] in text
    assert "; " in text
    assert caught.value.details == {"errno": errno.errorcode[number]}
