"""Power cuts between any two file calls on real filesystems: nothing acknowledged is lost.

Each operation is cut before its first call, between each two calls and after its acknowledgement,
once with and once without everything written so far having reached the disk.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from itertools import product
from typing import get_args

import pytest

from muster.stores.files import calls
from muster.stores.files.beneath import TEMPORARY_PREFIX
from muster.stores.files.private import PrivateTree
from tests.faults.file_shim import Died, DyingCalls
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
from tests.faults.power_cut import Disk, Filesystem, why_impossible
from tests.faults.scratch import scratch_folder

pytestmark = [pytest.mark.faults, pytest.mark.slow]

POINTS_DEMANDED = 300
FILESYSTEMS: tuple[Filesystem, ...] = get_args(Filesystem)
_cuts_made: Counter[tuple[Filesystem, str, bool]] = Counter()


@pytest.fixture(scope="module", params=FILESYSTEMS)
def disk(request: pytest.FixtureRequest) -> Iterator[Disk]:
    filesystem: Filesystem = request.param
    with scratch_folder(need_bytes=1 << 30) as scratch:
        reason = why_impossible(filesystem, scratch)
        if reason is not None:
            _absent(f"no power cuts on {filesystem}: {reason}")
        disk = Disk(filesystem, scratch)
        with disk.mounted(disk.template) as mount:
            for operation in OPERATIONS:
                prepare(operation, mount / operation.name)
            os.sync()
        yield disk


def _absent(reason: str) -> None:
    allowed = bool(os.environ.get("MUSTER_ALLOW_NO_POWERCUT"))
    if os.environ.get("CI") == "true" and not allowed:
        pytest.fail(f"{reason}; set MUSTER_ALLOW_NO_POWERCUT=1 where that can't be helped")
    pytest.skip(reason)


def _cut_at(disk: Disk, operation: Operation, k: int, flushed: bool) -> tuple[bool, list[str]]:
    """Cut before call k, or after the acknowledgement when there are fewer; what is wrong then."""
    image = disk.image()
    with disk.mounted(image) as mount:
        tree = PrivateTree(mount / operation.name)
        dying = DyingCalls(k, lambda: disk.cut(mount, flushed=flushed))
        acknowledged = True
        try:
            with calls.use(dying):
                operation.act(tree)
        except Died:
            acknowledged = False
        else:
            disk.cut(mount, flushed=flushed)
    with disk.mounted(image) as mount:
        after = recover(mount / operation.name)
        found = violations(operation, after, acknowledged)
        if not found:
            operation.act(after)
            found = violations(operation, after, acknowledged=True)
    _cuts_made[disk.filesystem, operation.name, flushed] += 1
    return acknowledged, found


@pytest.mark.parametrize("flushed", [False, True], ids=["unflushed", "flushed"])
@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda each: each.name)
def test_a_power_cut_at_any_call_loses_nothing_acknowledged(
    operation: Operation, flushed: bool, disk: Disk
) -> None:
    k, acknowledged = 0, False
    while not acknowledged:
        k += 1
        acknowledged, found = _cut_at(disk, operation, k, flushed)
        told = "after the acknowledgement" if acknowledged else f"before call {k}"
        assert found == [], f"power cut {told} on {disk.filesystem}"


def test_a_write_without_any_sync_is_found_lost(disk: Disk) -> None:
    """The cut is real: what nobody synced isn't there afterwards."""
    image = disk.image()
    with disk.mounted(image) as mount:
        tree = PrivateTree(mount / "replace")
        with tree.folders.open("d") as folder:
            file = calls.current().create(folder, f"{TEMPORARY_PREFIX}careless")
            calls.current().write(file, NEW)
            os.close(file)
            calls.current().rename(folder, f"{TEMPORARY_PREFIX}careless", "x")
        assert tree.read("d/x", limit=LIMIT) == NEW
        disk.cut(mount, flushed=False)
    with disk.mounted(image) as mount:
        assert recover(mount / "replace").read("d/x", limit=LIMIT) == OLD


def test_at_least_three_hundred_moments_were_cut() -> None:
    whole = set(product(FILESYSTEMS, [each.name for each in OPERATIONS], [False, True]))
    if set(_cuts_made) != whole:
        pytest.skip("only a part of the power cuts was selected or possible")
    print(f"{_cuts_made.total()} power cuts")
    assert _cuts_made.total() >= POINTS_DEMANDED
