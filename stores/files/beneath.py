"""Opening what lies beneath a folder, without following any symbolic link.

`openat2` resolves the whole path in one call and refuses links and escapes itself. Kernels before
5.6 don't have it and some sandboxes forbid it; then the path is walked one component at a time,
each opened relative to the one before with O_NOFOLLOW.
"""

from __future__ import annotations

import ctypes
import errno
import os
import stat
import struct
from functools import lru_cache

from muster.domain.errors import UnsafePath

TEMPORARY_PREFIX = ".tmp-"
"""Names with this prefix are files not yet complete; nobody else may use them."""

_OPENAT2 = 437  # the same number on x86_64 and aarch64
_NO_MAGICLINKS, _NO_SYMLINKS, _BENEATH = 0x02, 0x04, 0x08
_REFUSED = {errno.ENOSYS, errno.EPERM}
_TRANSIENT = {errno.EAGAIN, errno.EINTR}
_ATTEMPTS = 32
_NAME_BYTES = 255

_syscall = ctypes.CDLL(None, use_errno=True).syscall
_syscall.restype = ctypes.c_long
_syscall.argtypes = (
    ctypes.c_long,
    ctypes.c_int,
    ctypes.c_char_p,
    ctypes.c_char_p,
    ctypes.c_size_t,
)


@lru_cache(maxsize=4096)
def components(path: str) -> tuple[str, ...]:
    """The names in a relative POSIX path; the empty path is the root itself.

    Raises UnsafePath for an absolute path, an empty, `.` or `..` component, a NUL, a name longer
    than 255 bytes or one reserved for temporary files.
    """
    if not path:
        return ()
    names = tuple(path.split("/"))
    for name in names:
        problem = _problem(name)
        if problem:
            raise UnsafePath(
                f"path {path!r} isn't usable: {problem}; give names beneath the root, joined by '/'"
            )
    return names


def _problem(name: str) -> str | None:
    if name in ("", ".", ".."):
        return "it is absolute, or has an empty, '.' or '..' component"
    if "\0" in name:
        return "it contains a NUL"
    if len(os.fsencode(name)) > _NAME_BYTES:
        return f"a name is longer than {_NAME_BYTES} bytes"
    if name.startswith(TEMPORARY_PREFIX):
        return f"names starting with {TEMPORARY_PREFIX} are temporary files"
    return None


def split(path: str) -> tuple[str, str]:
    """A path's folder and its last name; raises UnsafePath as `components`, and for the root."""
    names = components(path)
    if not names:
        raise UnsafePath("the root itself was given where a name beneath it is needed")
    return "/".join(names[:-1]), names[-1]


def open_beneath(folder: int, path: str, flags: int) -> int:
    """Open an existing file or folder beneath `folder` and return its descriptor.

    `path` is relative with checked components, empty for the folder itself. Raises OSError as
    `open` does: ELOOP where any component is a symbolic link, EXDEV for an escape.
    """
    flags |= os.O_CLOEXEC
    for _ in range(_ATTEMPTS):
        try:
            return _openat2(folder, path or ".", flags)
        except OSError as error:
            if error.errno in _REFUSED:
                break
            if error.errno not in _TRANSIENT:
                raise
    # Refused, or renames kept disturbing it: the walk needs nothing but openat.
    return _walk(folder, path, flags | os.O_NOFOLLOW)


def open_folder(folder: int, path: str) -> int:
    """Open a folder beneath `folder`, for names, fsync and flock; raises as `open_beneath`."""
    return open_beneath(folder, path, os.O_RDONLY | os.O_DIRECTORY)


def _openat2(folder: int, path: str, flags: int) -> int:
    # Without O_NOFOLLOW: together with O_DIRECTORY it would report a link as ENOTDIR.
    how = struct.pack("QQQ", flags, 0, _BENEATH | _NO_SYMLINKS | _NO_MAGICLINKS)
    result: int = _syscall(_OPENAT2, folder, os.fsencode(path), how, len(how))
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), path)
    return result


def _walk(folder: int, path: str, flags: int) -> int:
    *parents, last = path.split("/") if path else ["."]
    at, owned = folder, False
    try:
        for name in parents:
            step = _open_at(at, name, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
            if owned:
                os.close(at)
            at, owned = step, True
        return _open_at(at, last, flags)
    finally:
        if owned:
            os.close(at)


def _open_at(folder: int, name: str, flags: int) -> int:
    for _ in range(_ATTEMPTS):
        try:
            return os.open(name, flags, dir_fd=folder)
        except NotADirectoryError:
            # With O_DIRECTORY a symbolic link is reported as "not a directory".
            mode = os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode
            if stat.S_ISLNK(mode):
                raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), name) from None
            if not stat.S_ISDIR(mode):
                raise
    raise OSError(errno.EAGAIN, os.strerror(errno.EAGAIN), name)  # exchanged all the time
