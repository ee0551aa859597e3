"""A commit that repeats what a dead writer did answers for it, so it makes it durable first."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import pytest

from muster.stores.files import calls
from muster.stores.files.calls import Call
from tests.domain import builders as b
from tests.faults.file_shim import CountingCalls, Died
from tests.stores.files.sessions_on_disk import FOLDER, REF, Disk

T = TypeVar("T")


class DyingAfterRename(CountingCalls):
    """The process dies between a file's new name and the sync of its folder."""

    def reach(self, number: int, call: Call, action: Callable[[], T]) -> T:
        result = super().reach(number, call, action)
        if call.name == "rename":
            raise Died
        return result


class Syncs(CountingCalls):
    """Notes which files and folders are synced."""

    def __init__(self) -> None:
        super().__init__()
        self.inodes: set[int] = set()

    def reach(self, number: int, call: Call, action: Callable[[], T]) -> T:
        if call.name == "fsync":
            self.inodes.add(os.fstat(call.descriptor).st_ino)
        return super().reach(number, call, action)


def test_a_repeat_after_a_death_before_the_folder_sync_syncs_before_it_answers(
    tmp_path: Path,
) -> None:
    disk = Disk.at(tmp_path / "state")
    disk.sessions.create(b.idle())
    prompt = b.prompt("p1")
    with calls.use(DyingAfterRename()), pytest.raises(Died):
        disk.sessions.commit(REF, 1, prompt, b.moment())
    after = Disk.at(disk.tree.root)
    found = after.sessions.commit(REF, 1, prompt, b.moment())
    assert found.outcome is None
    syncs = Syncs()
    with calls.use(syncs):
        answered = after.sessions.commit(REF, found.document.revision, prompt, b.moment())
    assert answered.outcome is not None
    assert disk.file(FOLDER).stat().st_ino in syncs.inodes
