"""What a caller of the private tree may rely on."""

from __future__ import annotations

import contextlib
import json
import os
import threading
import time
from pathlib import Path

import pytest

from muster.domain import faults
from muster.domain.errors import (
    LimitExceeded,
    ResourceGone,
    StateCorrupt,
    StorageUnavailable,
    UnsafePath,
)
from muster.stores.files.private import PrivateTree

LIMIT = 1_000


@pytest.fixture
def tree(tmp_path: Path) -> PrivateTree:
    return PrivateTree(tmp_path / "state")


def test_a_file_reads_back_as_it_was_written(tree: PrivateTree) -> None:
    tree.replace("a/b/x.json", b"first", limit=LIMIT)
    tree.replace("a/b/x.json", b"second", limit=LIMIT)
    assert tree.read("a/b/x.json", limit=LIMIT) == b"second"
    assert tree.list("a/b") == ["x.json"]


def test_an_empty_file_is_not_an_absent_one(tree: PrivateTree) -> None:
    tree.replace("x", b"", limit=LIMIT)
    assert tree.read("x", limit=LIMIT) == b""
    assert tree.read("y", limit=LIMIT) is None
    assert tree.read("no/such/folder/y", limit=LIMIT) is None


def test_everything_made_is_private_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        tree = PrivateTree(tmp_path / "above" / "state")
        tree.replace("a/b/x", b"1", limit=LIMIT)
        tree.create("a/b/y", b"1", limit=LIMIT)
    finally:
        os.umask(before)
    modes = {
        str(each.relative_to(tree.root)): oct(each.stat().st_mode & 0o777)
        for each in [tree.root, *tree.root.rglob("*")]
    }
    assert modes == {".": "0o700", "a": "0o700", "a/b": "0o700", "a/b/x": "0o600", "a/b/y": "0o600"}


def test_a_second_creation_hears_no_and_changes_nothing(tree: PrivateTree) -> None:
    assert tree.create("r/x", b"first", limit=LIMIT) is True
    assert tree.create("r/x", b"second", limit=LIMIT) is False
    assert tree.read("r/x", limit=LIMIT) == b"first"
    assert tree.list("r") == ["x"]


def test_a_creator_overtaken_at_the_last_moment_hears_no(tree: PrivateTree) -> None:
    faults.arm(
        "files.temporary_written", lambda: tree.replace("r/x", b"the faster one", limit=LIMIT)
    )
    assert tree.create("r/x", b"the slower one", limit=LIMIT) is False
    assert tree.read("r/x", limit=LIMIT) == b"the faster one"
    assert tree.sweep_temporary("r") == 0


def test_of_many_creators_at_once_exactly_one_wins(tree: PrivateTree) -> None:
    barrier = threading.Barrier(8)
    won: list[bytes] = []

    def creator(content: bytes) -> None:
        barrier.wait()
        if tree.create("claims/one", content, limit=LIMIT):
            won.append(content)

    threads = [threading.Thread(target=creator, args=(bytes([65 + n]),)) for n in range(8)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert won == [tree.read("claims/one", limit=LIMIT)]
    assert os.listdir(tree.root / "claims") == ["one"]  # noqa: PTH208 - with temporary files


def test_what_is_too_large_is_neither_written_nor_read(tree: PrivateTree) -> None:
    tree.replace("x", b"o" * 10, limit=10)
    with pytest.raises(LimitExceeded, match=r"11 bytes, 10 are allowed; nothing was written"):
        tree.replace("x", b"n" * 11, limit=10)
    with pytest.raises(LimitExceeded):
        tree.create("y", b"n" * 11, limit=10)
    assert tree.read("x", limit=10) == b"o" * 10
    assert not tree.exists("y")
    with pytest.raises(LimitExceeded, match=r"larger than the 9 bytes allowed"):
        tree.read("x", limit=9)


def test_removing_says_whether_there_was_something(tree: PrivateTree) -> None:
    tree.replace("a/x", b"1", limit=LIMIT)
    assert tree.remove("a/x") is True
    assert tree.remove("a/x") is False
    assert tree.remove("nowhere/x") is False
    assert tree.remove_tree("a") is True
    assert tree.remove_tree("a") is False


def test_removing_a_tree_takes_links_and_leaves_what_they_point_at(
    tree: PrivateTree, tmp_path: Path
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "precious").write_text("kept")
    tree.replace("t/inner/x", b"1", limit=LIMIT)
    (tree.root / "t" / "folder-link").symlink_to(outside)
    (tree.root / "t" / "inner" / "file-link").symlink_to(outside / "precious")
    (tree.root / "link").symlink_to(outside)
    assert tree.remove_tree("t") is True
    assert tree.remove_tree("link") is True
    assert tree.list("") == []
    assert (outside / "precious").read_text() == "kept"


def test_what_is_set_aside_keeps_its_content_and_says_why(tree: PrivateTree) -> None:
    for content, expected in ((b"one", "s/doc.json.aside-1"), (b"two", "s/doc.json.aside-2")):
        tree.replace("s/doc.json", content, limit=LIMIT)
        assert tree.set_aside("s/doc.json", f"broken {content.decode()}") == expected
    assert tree.read("s/doc.json", limit=LIMIT) is None
    assert tree.read("s/doc.json.aside-1", limit=LIMIT) == b"one"
    assert tree.read("s/doc.json.aside-2", limit=LIMIT) == b"two"
    note = json.loads(tree.read("s/doc.json.aside-2.reason", limit=LIMIT) or b"")
    assert (note["name"], note["reason"]) == ("doc.json", "broken two")


def test_a_folder_is_set_aside_whole(tree: PrivateTree) -> None:
    tree.replace("s/inner/x", b"1", limit=LIMIT)
    assert tree.set_aside("s", "unknown layout") == "s.aside-1"
    tree.replace("s/inner/x", b"2", limit=LIMIT)
    assert tree.read("s.aside-1/inner/x", limit=LIMIT) == b"1"


def test_nothing_can_not_be_set_aside(tree: PrivateTree) -> None:
    with pytest.raises(ResourceGone):
        tree.set_aside("s/x", "why")
    assert tree.list("") == []


def test_a_sweep_takes_temporary_files_and_nothing_else(tree: PrivateTree) -> None:
    tree.replace("a/x", b"1", limit=LIMIT)
    (tree.root / "a" / ".tmp-left-by-the-dead").write_bytes(b"half")
    assert tree.list("a") == ["x"]
    with tree.lock("a"):
        assert tree.sweep_temporary("a") == 1
        assert tree.sweep_temporary("a") == 0
    assert sorted(each.name for each in (tree.root / "a").iterdir()) == ["x"]


@pytest.mark.parametrize("point", ["files.temporary_written", "files.renamed"])
def test_a_write_that_breaks_at_a_fault_point_leaves_old_or_new_and_no_litter(
    tree: PrivateTree, point: str
) -> None:
    class Broken(Exception):
        pass

    def breaks() -> None:
        raise Broken

    tree.replace("a/x", b"old", limit=LIMIT)
    for act in (
        lambda: tree.replace("a/x", b"new", limit=LIMIT),
        lambda: tree.create("a/y", b"new", limit=LIMIT),
    ):
        faults.arm(point, breaks)
        with pytest.raises(Broken):
            act()
    written = point == "files.renamed"
    assert tree.read("a/x", limit=LIMIT) == (b"new" if written else b"old")
    assert tree.read("a/y", limit=LIMIT) == (b"new" if written else None)
    assert tree.sweep_temporary("a") == 0


def test_a_file_in_a_folders_place_is_named_and_left_alone(tree: PrivateTree) -> None:
    tree.replace("a", b"1", limit=LIMIT)
    with pytest.raises(StateCorrupt, match=r"state/a/x.*move it away"):
        tree.replace("a/x", b"2", limit=LIMIT)
    with pytest.raises(StateCorrupt):
        tree.make_directory("a")
    tree.make_directory("b")
    with pytest.raises(StateCorrupt):
        tree.replace("b", b"2", limit=LIMIT)
    with pytest.raises(StateCorrupt):
        tree.remove("b")
    assert tree.read("a", limit=LIMIT) == b"1"
    assert tree.list("") == ["a", "b"]


def test_neither_a_pipe_nor_a_folder_is_read(tree: PrivateTree) -> None:
    os.mkfifo(tree.root / "pipe")
    tree.make_directory("folder")
    for name in ("pipe", "folder"):
        with pytest.raises(UnsafePath, match=r"isn't a regular file"):
            tree.read(name, limit=LIMIT)


def test_the_root_must_be_a_folder_of_ones_own(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir(mode=0o700)
    (tmp_path / "link").symlink_to(tmp_path / "real")
    (tmp_path / "file").touch()
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    with pytest.raises(UnsafePath, match=r"symbolic link or no folder"):
        PrivateTree(tmp_path / "link")
    with pytest.raises(UnsafePath, match=r"symbolic link or no folder"):
        PrivateTree(tmp_path / "file")
    with pytest.raises(UnsafePath, match=r"chmod 700"):
        PrivateTree(tmp_path / "open")


@pytest.mark.skipif(os.geteuid() != 0, reason="giving a folder away needs root")
def test_a_root_of_another_user_is_refused(tmp_path: Path) -> None:
    root = tmp_path / "state"
    root.mkdir(mode=0o700)
    os.chown(root, 12345, -1)
    with pytest.raises(UnsafePath, match=r"belongs to user 12345"):
        PrivateTree(root)


def test_a_root_replaced_while_running_gets_no_write(tree: PrivateTree, tmp_path: Path) -> None:
    tree.replace("x", b"old", limit=LIMIT)
    tree.root.rename(tmp_path / "moved")
    with pytest.raises(StorageUnavailable):
        tree.replace("x", b"new", limit=LIMIT)
    tree.root.mkdir(mode=0o700)
    with pytest.raises(StorageUnavailable, match=r"was replaced while running"):
        tree.replace("x", b"new", limit=LIMIT)
    assert list(tree.root.iterdir()) == []
    assert (tmp_path / "moved" / "x").read_bytes() == b"old"


def test_no_descriptor_stays_open(tree: PrivateTree) -> None:
    def everything() -> None:
        tree.replace("a/b/x", b"1", limit=LIMIT)
        tree.create("a/b/y", b"1", limit=LIMIT)
        tree.set_aside("a/b/x", "why")
        (tree.root / "a" / "link").symlink_to("/")
        with tree.lock("a", timeout=1):
            for path in ("a", "a/b/z", "a/link/x", "../x"):
                try:
                    tree.read(path, limit=0)
                except UnsafePath:
                    continue
        tree.remove_tree("a")

    everything()
    before = _open_beneath(tree.root)
    everything()
    assert _open_beneath(tree.root) == before


def _open_beneath(root: Path) -> list[str]:
    """What this process has open at or beneath a folder."""
    found = []
    for each in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):
            found.append(str(each.readlink()))
    return sorted(path for path in found if path.startswith(str(root)))


def test_what_a_dead_writer_left_long_ago_is_swept_without_the_lock(tmp_path: Path) -> None:
    tree = PrivateTree(tmp_path / "root")
    tree.make_directory("a")
    folder = tmp_path / "root" / "a"
    for name, age in ((".tmp-old", 7_200), (".tmp-new", 0)):
        (folder / name).write_bytes(b"half")
        os.utime(folder / name, (time.time() - age,) * 2)

    assert tree.sweep_temporary("a", older_than=3_600) == 1
    assert [each.name for each in folder.iterdir()] == [".tmp-new"]
