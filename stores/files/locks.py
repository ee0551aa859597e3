"""An exclusive lock on a folder by `flock`: the kernel frees it when its holder dies."""

from __future__ import annotations

import fcntl
import os
import time

from muster.domain.errors import StorageUnavailable

_POLL_SECONDS = 0.01


def lock_folder(descriptor: int, where: str, timeout: float | None) -> None:
    """Take the lock, waiting at most `timeout` seconds, or for ever when it is None.

    Raises StorageUnavailable when somebody else held it all that time.
    """
    if timeout is None:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        return
    deadline = time.monotonic() + timeout
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= deadline:
                raise StorageUnavailable(
                    f"{where} is locked: another process or thread held it for {timeout:g} s; "
                    "try again, and see `lslocks` for the holder if it stays"
                ) from None
            time.sleep(_POLL_SECONDS)
        else:
            return


def same_folder(one: int, other: int) -> bool:
    """Whether two descriptors are of the same folder."""
    return os.path.samestat(os.fstat(one), os.fstat(other))
