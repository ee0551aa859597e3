"""What an OSError of the filesystem means to a caller: coded, with what, where and what to do."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager

from muster.domain.errors import StateCorrupt, StorageUnavailable, UnsafePath

_ADVICE = {
    errno.ENOSPC: "free space on this filesystem; the write is repeated as it was",
    errno.EDQUOT: "raise the quota or free space; the write is repeated as it was",
    errno.EIO: "check the disk and the kernel log before trying again",
    errno.EROFS: "the filesystem is read-only: check the kernel log, then mount it read-write",
    errno.EACCES: "let the worker's user read and write it (folders 0700, files 0600)",
    errno.EPERM: "check that the filesystem has hard links and that nothing is immutable",
    errno.EMFILE: "raise the process's limit of open files (ulimit -n)",
    errno.ENOENT: "something else removed it meanwhile; try again",
    errno.ESTALE: "the network filesystem lost it; check its server, then restart the worker",
}
_OTHER_ADVICE = "try again; if it stays, check the filesystem"

_WRONG_KIND = {errno.ENOTDIR, errno.EISDIR, errno.EEXIST, errno.ENOTEMPTY}
_UNSAFE = {errno.ELOOP: "passes through a symbolic link", errno.EXDEV: "leaves its root"}


@contextmanager
def coded(doing: str, where: str) -> Iterator[None]:
    """Turn an OSError inside into a coded error that says what was being done and where.

    Raises UnsafePath for a symbolic link or an escape, StateCorrupt where a folder stands in a
    file's place or the other way round, StorageUnavailable for everything else: the operation may
    be repeated as it is.
    """
    try:
        yield
    except OSError as error:
        raise _coded(error, doing, where) from error


def _coded(
    error: OSError, doing: str, where: str
) -> UnsafePath | StateCorrupt | StorageUnavailable:
    number = error.errno or 0
    name = errno.errorcode.get(number, str(number))
    if number in _UNSAFE:
        return UnsafePath(
            f"can't {doing} {where}: the path {_UNSAFE[number]}; "
            "remove the link, Muster never follows one"
        )
    if number in _WRONG_KIND:
        return StateCorrupt(
            f"can't {doing} {where}: {os.strerror(number)} ({name}); a file stands where a folder "
            "belongs, or the other way round: move it away",
            errno=name,
        )
    advice = _ADVICE.get(number, _OTHER_ADVICE)
    return StorageUnavailable(
        f"can't {doing} {where}: {os.strerror(number)} ({name}); {advice}", errno=name
    )
