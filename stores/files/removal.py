"""Looking at and removing entries of an open folder, never through a symbolic link."""

from __future__ import annotations

import contextlib
import os
import stat

from muster.stores.files import beneath, calls


def entry_status(folder: int, name: str) -> os.stat_result | None:
    """The status of the entry itself, also of a symbolic link; None when there is none."""
    try:
        return os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None


def names_in(folder: int) -> list[str]:
    """The names in the folder, in order."""
    with os.scandir(folder) as entries:
        return sorted(entry.name for entry in entries)


def remove_if_present(folder: int, name: str) -> bool:
    """Remove a file or symbolic link; False when there is none."""
    try:
        calls.current().unlink(folder, name)
    except FileNotFoundError:
        return False
    return True


def discard(folder: int, name: str) -> None:
    """Remove a half-made file after an error, if that works; the first error is what counts."""
    with contextlib.suppress(OSError):
        calls.current().unlink(folder, name)


def remove_entry(folder: int, name: str) -> bool:
    """Remove a file, a symbolic link or a folder with all it holds; False when there is none."""
    status = entry_status(folder, name)
    if status is None:
        return False
    if not stat.S_ISDIR(status.st_mode):
        return remove_if_present(folder, name)
    try:
        inner = beneath.open_folder(folder, name)
    except FileNotFoundError:
        return False
    try:
        for each in names_in(inner):
            remove_entry(inner, each)
    finally:
        os.close(inner)
    with contextlib.suppress(FileNotFoundError):  # somebody else was faster
        calls.current().rmdir(folder, name)
    return True
