"""The lock of a folder: one holder among threads and processes, freed by death."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from muster.domain.errors import StorageUnavailable
from muster.stores.files.private import PrivateTree
from tests.waiting import eventually

_HOLD = """
import sys
from pathlib import Path
from muster.stores.files.private import PrivateTree
with PrivateTree(Path(sys.argv[1])).lock("s"):
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def tree(tmp_path: Path) -> PrivateTree:
    return PrivateTree(tmp_path / "state")


def test_a_second_holder_waits_its_time_and_is_told(tree: PrivateTree) -> None:
    with (
        tree.lock("s"),
        pytest.raises(StorageUnavailable, match=r"state/s is locked.*0.05 s"),
        tree.lock("s", timeout=0.05),
    ):
        pytest.fail("two holders")
    with tree.lock("s", timeout=0):
        pass


def test_locks_of_different_folders_are_independent(tree: PrivateTree) -> None:
    with tree.lock("s"), tree.lock("t", timeout=0), tree.lock("", timeout=0):
        assert tree.list("") == ["s", "t"]


def test_read_change_write_under_the_lock_loses_no_update(tree: PrivateTree) -> None:
    def add() -> None:
        for _ in range(20):
            with tree.lock("s"):
                count = int(tree.read("s/count", limit=10) or b"0")
                tree.replace("s/count", str(count + 1).encode(), limit=10)

    threads = [threading.Thread(target=add) for _ in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert tree.read("s/count", limit=10) == b"80"


def test_a_killed_process_holds_nothing(tree: PrivateTree) -> None:
    holder = subprocess.Popen(
        [sys.executable, "-c", _HOLD, str(tree.root)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=Path(__file__).parents[3],
    )
    with holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        with pytest.raises(StorageUnavailable), tree.lock("s", timeout=0):
            pytest.fail("two holders")
        holder.kill()
        with tree.lock("s", timeout=10):
            pass


def _descriptors_of(folder: Path) -> int:
    """How many descriptors of this process are of the folder: one a holder, one a waiter."""
    found = 0
    for each in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):
            found += each.samefile(folder)
    return found


async def test_who_waited_for_a_folder_that_was_removed_holds_the_new_one(
    tree: PrivateTree,
) -> None:
    """Else two could hold "the" lock: one on the removed folder, one on its successor."""
    holding, released = threading.Event(), threading.Event()

    def waiter() -> None:
        with tree.lock("s"):
            holding.set()
            released.wait(10)

    thread = threading.Thread(target=waiter)
    with tree.lock("s"):
        thread.start()
        await eventually(lambda: _descriptors_of(tree.root / "s") == 2, every=0.005)
        tree.remove_tree("s")
        tree.make_directory("s")
    assert holding.wait(10)
    with pytest.raises(StorageUnavailable), tree.lock("s", timeout=0):
        pytest.fail("two holders")
    released.set()
    thread.join()
