"""Every file call that changes something, in one place.

All of `stores/files/` changes the disk through the current `FileCalls`; names are single
components relative to a folder's descriptor, so that no call resolves a path. Fault tests
replace the instance with `use` to record the calls, to fail the k-th or to die there.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal, TypeVar

T = TypeVar("T")

FILE_MODE = 0o600
FOLDER_MODE = 0o700
_INTERRUPTIONS = 16

CallName = Literal[
    "create",
    "append_to",
    "write",
    "truncate",
    "fsync",
    "rename",
    "link",
    "unlink",
    "mkdir",
    "rmdir",
]


@dataclass(frozen=True, slots=True)
class Call:
    """One system call about to be made."""

    name: CallName
    descriptor: int
    """The file's for write, truncate and fsync, else that of the folder holding `entry`."""
    entry: str = ""
    target: str = ""
    """The second name of rename and link, in the same folder."""
    data: bytes | memoryview = b""
    length: int = 0
    """The new length of truncate."""
    mode: int = 0


class FileCalls:
    """The real calls. `perform` is the one seam: subclasses see each call before it is made."""

    def perform(self, call: Call, action: Callable[[], T]) -> T:
        """Make one system call and return its result; raises OSError as the system does."""
        return action()

    def create(self, folder: int, name: str) -> int:
        """Create `name`, private and empty, and return its descriptor for writing.

        Raises FileExistsError when the name is taken, also by a symbolic link.
        """
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        call = Call("create", folder, name, mode=FILE_MODE)
        return self.perform(call, lambda: os.open(name, flags, FILE_MODE, dir_fd=folder))

    def append_to(self, folder: int, name: str) -> int:
        """Open `name` for reading and appending, created private when absent."""
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        call = Call("append_to", folder, name, mode=FILE_MODE)
        return self.perform(call, lambda: os.open(name, flags, FILE_MODE, dir_fd=folder))

    def write(self, descriptor: int, data: bytes) -> None:
        """Write all of `data`, however little the system takes at a time."""
        rest = memoryview(data)
        while rest:
            call = Call("write", descriptor, data=rest)
            written = self._uninterrupted(call, lambda part=rest: os.write(descriptor, part))  # type: ignore[misc]
            rest = rest[written:]

    def truncate(self, descriptor: int, length: int) -> None:
        """Cut the file to `length` bytes."""
        call = Call("truncate", descriptor, length=length)
        self._uninterrupted(call, lambda: os.ftruncate(descriptor, length))

    def fsync(self, descriptor: int) -> None:
        """Bring a file's bytes or a folder's names to the disk.

        Never repeated after an error: the system reports a lost page once and then calls the
        descriptor clean. The caller throws the file away and writes another.
        """
        self.perform(Call("fsync", descriptor), lambda: os.fsync(descriptor))

    def rename(self, folder: int, name: str, target: str) -> None:
        """Give `name` the name `target` in the same folder, replacing what had it."""
        self._uninterrupted(
            Call("rename", folder, name, target),
            lambda: os.rename(name, target, src_dir_fd=folder, dst_dir_fd=folder),
        )

    def link(self, folder: int, name: str, target: str) -> None:
        """Give the file `name` a second name; raises FileExistsError when it is taken."""
        self._uninterrupted(
            Call("link", folder, name, target),
            lambda: os.link(
                name, target, src_dir_fd=folder, dst_dir_fd=folder, follow_symlinks=False
            ),
        )

    def unlink(self, folder: int, name: str) -> None:
        """Remove a name that isn't a folder's; a symbolic link goes, not what it points at."""
        self._uninterrupted(Call("unlink", folder, name), lambda: os.unlink(name, dir_fd=folder))

    def mkdir(self, folder: int, name: str, mode: int = FOLDER_MODE) -> None:
        """Make a folder; raises FileExistsError when the name is taken."""
        call = Call("mkdir", folder, name, mode=mode)
        self._uninterrupted(call, lambda: os.mkdir(name, mode, dir_fd=folder))

    def rmdir(self, folder: int, name: str) -> None:
        """Remove an empty folder."""
        self._uninterrupted(Call("rmdir", folder, name), lambda: os.rmdir(name, dir_fd=folder))

    def _uninterrupted(self, call: Call, action: Callable[[], T]) -> T:
        """`perform`, again after EINTR: Python repeats only some of these calls by itself."""
        for _ in range(_INTERRUPTIONS):
            try:
                return self.perform(call, action)
            except InterruptedError:
                continue
        return self.perform(call, action)


_current = FileCalls()


def current() -> FileCalls:
    """The calls in use: the system's, unless a test replaced them."""
    return _current


@contextmanager
def use(calls: FileCalls) -> Iterator[None]:
    """Replace the calls of the whole process for a while; for fault tests."""
    global _current
    before, _current = _current, calls
    try:
        yield
    finally:
        _current = before
