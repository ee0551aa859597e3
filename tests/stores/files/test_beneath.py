"""No path leaves its root, with `openat2` and with the walk that stands in for it."""

from __future__ import annotations

import ctypes
import errno
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from muster.domain.errors import UnsafePath
from muster.stores.files import beneath
from muster.stores.files.private import PrivateTree

LIMIT = 10_000
ENOUGH = 100
"""Saves that must pass, and as many that must be refused, while a folder is swapped."""


def _openat2_works() -> bool:
    root = os.open("/", os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.close(beneath._openat2(root, ".", os.O_RDONLY | os.O_DIRECTORY))
    except OSError:
        return False
    else:
        return True
    finally:
        os.close(root)


def _refused(_folder: int, path: str, _flags: int) -> int:
    """What a kernel without the call answers."""
    raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS), path)


@pytest.fixture(params=["openat2", "walk"])
def tree(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> PrivateTree:
    if request.param == "walk":
        monkeypatch.setattr(beneath, "_openat2", _refused)
    elif not _openat2_works():
        pytest.skip("this kernel or sandbox refuses openat2")
    return PrivateTree(tmp_path / "state")


@pytest.mark.parametrize(
    "path",
    ["../x", "/etc/passwd", "a/../../x", "a/..", "./a", "a//b", "a/", "", "a\0b", "n" * 256,
     ".tmp-x", "a/.tmp-x"],
)  # fmt: skip
def test_a_path_that_could_leave_the_root_is_refused(tree: PrivateTree, path: str) -> None:
    for act in (
        lambda: tree.read(path, limit=LIMIT),
        lambda: tree.replace(path, b"x", limit=LIMIT),
        lambda: tree.create(path, b"x", limit=LIMIT),
        lambda: tree.remove(path),
        lambda: tree.remove_tree(path),
        lambda: tree.set_aside(path, "why"),
        lambda: tree.exists(path),
    ):
        with pytest.raises(UnsafePath):
            act()
    assert tree.list("") == []


@pytest.fixture
def outside(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "outside"
    (folder / "inner").mkdir(parents=True)
    (folder / "precious").write_text("kept")
    yield folder
    assert sorted(each.name for each in folder.rglob("*")) == ["inner", "precious"]
    assert (folder / "precious").read_text() == "kept"


@pytest.mark.parametrize("link", ["a", "a/b"])
@pytest.mark.parametrize("inside", [False, True], ids=["to-outside", "to-inside"])
def test_no_link_on_the_way_is_followed(
    tree: PrivateTree, outside: Path, link: str, inside: bool
) -> None:
    tree.make_directory("real/inner")
    (tree.root / link).parent.mkdir(exist_ok=True)
    (tree.root / link).symlink_to(tree.root / "real" if inside else outside)
    for act in (
        lambda: tree.read(f"{link}/precious", limit=LIMIT),
        lambda: tree.read(f"{link}/inner/x", limit=LIMIT),
        lambda: tree.list(f"{link}/inner"),
        lambda: tree.remove(f"{link}/inner/x"),
        lambda: tree.replace(f"{link}/x", b"x", limit=LIMIT),
        lambda: tree.replace(f"{link}/inner/x", b"x", limit=LIMIT),
        lambda: tree.create(f"{link}/new/x", b"x", limit=LIMIT),
        lambda: tree.remove(f"{link}/precious"),
        lambda: tree.remove_tree(f"{link}/inner"),
        lambda: tree.set_aside(f"{link}/precious", "why"),
        lambda: tree.make_directory(f"{link}/new"),
        lambda: tree.list(link),
        lambda: tree.sweep_temporary(link),
        lambda: tree.settle(f"{link}/precious"),
        lambda: tree.lock(link).__enter__(),
    ):
        with pytest.raises(UnsafePath, match=r"symbolic link"):
            act()
    assert tree.list("real") == ["inner"]


def test_a_link_in_a_files_place_is_not_read_but_replaced_and_removed_itself(
    tree: PrivateTree, outside: Path
) -> None:
    (tree.root / "x").symlink_to(outside / "precious")
    with pytest.raises(UnsafePath, match=r"symbolic link"):
        tree.read("x", limit=LIMIT)
    assert tree.create("x", b"new", limit=LIMIT) is False
    tree.replace("x", b"new", limit=LIMIT)
    assert tree.read("x", limit=LIMIT) == b"new"
    (tree.root / "y").symlink_to(outside / "precious")
    assert tree.remove("y") is True


class Swapper(threading.Thread):
    """Exchanges a folder and a symbolic link, atomically and as fast as it can."""

    def __init__(self, folder: Path, link: Path) -> None:
        super().__init__()
        self.names = os.fsencode(folder), os.fsencode(link)
        self.stopping = threading.Event()
        self.swaps = 0

    def run(self) -> None:
        rename = ctypes.CDLL(None, use_errno=True).renameat2
        at_cwd, exchange = -100, 2
        while not self.stopping.is_set() or self.swaps % 2:
            assert rename(at_cwd, self.names[0], at_cwd, self.names[1], exchange) == 0
            self.swaps += 1


def test_a_folder_swapped_for_a_link_while_saves_run_lets_no_byte_out(
    tree: PrivateTree, outside: Path
) -> None:
    tree.replace("s/inner/x", b"start", limit=LIMIT)
    (tree.root / "link").symlink_to(outside)
    swapper = Swapper(tree.root / "s", tree.root / "link")
    acts = (
        lambda: tree.replace("s/inner/x", b"more", limit=LIMIT),
        lambda: tree.replace("s/new/x", b"more", limit=LIMIT),
        lambda: tree.remove_tree("s/new"),
        lambda: tree.remove("s/precious"),
    )
    done = refused = 0
    deadline = time.monotonic() + 20
    swapper.start()
    try:
        while min(done, refused, swapper.swaps // 4) < ENOUGH and time.monotonic() < deadline:
            for act in acts:
                try:
                    act()
                    done += 1
                except UnsafePath:
                    refused += 1
    finally:
        swapper.stopping.set()
        swapper.join()
    assert min(done, refused, swapper.swaps // 4) >= ENOUGH
    assert tree.read("s/inner/x", limit=LIMIT) == b"more"


_WITH_SECCOMP = """
import ctypes, struct, sys
from pathlib import Path
number = int(sys.argv[1])
def op(code, jt, jf, k): return struct.pack("HBBI", code, jt, jf, k)
program = b"".join([
    op(0x20, 0, 0, 0),                     # load the call's number
    op(0x15, 0, 1, 437),                   # openat2?
    op(0x06, 0, 0, 0x00050000 | number),   # answer with the error
    op(0x06, 0, 0, 0x7FFF0000),            # allow
])
code = ctypes.create_string_buffer(program)
class Fprog(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.c_void_p)]
filter = Fprog(4, ctypes.cast(code, ctypes.c_void_p))
libc = ctypes.CDLL(None, use_errno=True)
assert libc.prctl(38, 1, 0, 0, 0) == 0
assert libc.prctl(22, 2, ctypes.byref(filter), 0, 0) == 0, ctypes.get_errno()
from muster.domain.errors import UnsafePath
from muster.stores.files import beneath
from muster.stores.files.private import PrivateTree
tree = PrivateTree(Path(sys.argv[2]))
try:
    beneath._openat2(0, ".", 0)
except OSError as error:
    assert error.errno == number, error
tree.replace("a/b/x", b"through the walk", limit=100)
(tree.root / "a" / "link").symlink_to("/etc")
try:
    tree.read("a/link/hostname", limit=100)
except UnsafePath:
    print(tree.read("a/b/x", limit=100).decode())
"""


@pytest.mark.skipif(
    not hasattr(ctypes.CDLL(None), "prctl"), reason="seccomp filters are Linux's own"
)
@pytest.mark.parametrize("number", [errno.ENOSYS, errno.EPERM], ids=["ENOSYS", "EPERM"])
def test_where_a_sandbox_forbids_openat2_the_walk_takes_over(tmp_path: Path, number: int) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", _WITH_SECCOMP, str(number), str(tmp_path / "state")],
        capture_output=True,
        text=True,
        cwd=Path(__file__).parents[3],
        timeout=60,
        check=False,
    )
    assert (ran.returncode, ran.stdout) == (0, "through the walk\n"), ran.stderr
