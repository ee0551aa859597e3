"""The folder that a tree of private files stands in: made once, checked at each opening."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from pathlib import Path

from muster.domain.errors import StorageUnavailable, UnsafePath
from muster.stores.files import calls

_ORDINARY_FOLDER = 0o777
_OPEN_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_UNSYNCABLE = {errno.EINVAL, errno.ENOTSUP, errno.EBADF}

Identity = tuple[int, int]
"""Device and inode number."""


def prepare_root(root: Path) -> Identity:
    """Make `root` durable, private if it was missing, and return its identity.

    Missing parents get the ordinary mode. Raises UnsafePath when the root is a symbolic link, no
    folder, another user's or writable by others; OSError as the system does.
    """
    _make_durable(root)
    descriptor = _open(root)
    try:
        return _checked(root, descriptor)
    finally:
        os.close(descriptor)


def open_root(root: Path, known: Identity) -> int:
    """Open the root that `prepare_root` saw.

    Raises StorageUnavailable when another folder stands there now: a filesystem was mounted over
    it or lost, or it was put back from a copy, and writes would divide between the two.
    """
    descriptor = _open(root)
    try:
        found = _checked(root, descriptor)
        if found != known:
            raise StorageUnavailable(
                f"the state root {root} was replaced while running; check what is mounted there, "
                "then restart the worker"
            )
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _open(root: Path) -> int:
    try:
        return os.open(root, _OPEN_FOLDER | os.O_NOFOLLOW)
    except NotADirectoryError:
        raise UnsafePath(
            f"the state root {root} is a symbolic link or no folder; name the folder itself"
        ) from None


def _checked(root: Path, descriptor: int) -> Identity:
    found = os.fstat(descriptor)
    if found.st_uid != os.geteuid():
        raise UnsafePath(
            f"the state root {root} belongs to user {found.st_uid}, not to {os.geteuid()}; "
            "name a folder of the worker's own"
        )
    if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise UnsafePath(f"others may write to the state root {root}; run: chmod 700 {root}")
    return found.st_dev, found.st_ino


def _make_durable(root: Path) -> None:
    """Make missing folders down to `root`, and bring every name above it to the disk.

    Also those found: whoever made them may have died before their parent was synced.
    """
    for folder in [*reversed(root.parents), root][1:]:
        missing = not os.path.lexists(folder)
        if not missing and not os.access(folder.parent, os.R_OK | os.W_OK):
            continue  # none of ours made it
        parent = os.open(folder.parent, _OPEN_FOLDER)
        try:
            if missing:
                mode = calls.FOLDER_MODE if folder == root else _ORDINARY_FOLDER
                with contextlib.suppress(FileExistsError):  # another process was faster
                    calls.current().mkdir(parent, folder.name, mode)
            _sync_folder(parent)
        finally:
            os.close(parent)


def _sync_folder(descriptor: int) -> None:
    try:
        calls.current().fsync(descriptor)
    except OSError as error:
        if error.errno not in _UNSYNCABLE:
            raise
