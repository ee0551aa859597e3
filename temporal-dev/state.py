"""The right to run the stack of a data folder, and the file in which it describes itself."""

from __future__ import annotations

import asyncio
import fcntl
import os
import signal
import time
from pathlib import Path

from muster.client.local_stack import (
    LOCK_NAME,
    STATE_NAME,
    ProcessInfo,
    StackInfo,
    read_state,
)
from muster.devstack.process import process_started

LEFTOVER_SECONDS = 15.0
"""How long processes of a killed supervisor may take to end by themselves."""

_READER_SECONDS = 1.0
_POLL_SECONDS = 0.05


class StackLock:
    """The right to run the stack of one data folder; the kernel frees it when the process ends."""

    def __init__(self, data_dir: Path) -> None:
        self._data_dir = data_dir
        self._file: int | None = None

    def acquire(self) -> bool:
        """Take the lock; False when another process has it."""
        self._data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle = os.open(self._data_dir / LOCK_NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        # A reader holds it shared for a moment: that isn't another stack.
        deadline = time.monotonic() + _READER_SECONDS
        while True:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() < deadline and _held_by_reader(handle):
                    time.sleep(_POLL_SECONDS)
                    continue
                os.close(handle)
                return False
            self._file = handle
            return True

    def write(self, info: StackInfo) -> None:
        """Replace the state file in one step; it is private, since a URI may hold a password."""
        target = self._data_dir / STATE_NAME
        fresh = target.with_suffix(".new")
        fresh.touch(mode=0o600)
        fresh.write_text(info.model_dump_json(indent=2) + "\n")
        fresh.replace(target)

    def release(self) -> None:
        """Remove the state file and give the lock back."""
        if self._file is None:
            return
        (self._data_dir / STATE_NAME).unlink(missing_ok=True)
        os.close(self._file)
        self._file = None

    async def end_leftovers(self) -> list[str]:
        """End what a killed supervisor started, and wait for it; the names of what still ran.

        To be called with the lock held: the state file is then that of a supervisor that is gone.
        """
        left = read_state(self._data_dir)
        alive = [each for each in (left.processes if left else ()) if _runs(each)]
        deadline = time.monotonic() + LEFTOVER_SECONDS
        for each in alive:
            _send(each, signal.SIGTERM)
        while any(_runs(each) for each in alive) and time.monotonic() < deadline:
            await asyncio.sleep(_POLL_SECONDS)
        for each in alive:
            _send(each, signal.SIGKILL)
        return [each.name for each in alive]


def _held_by_reader(handle: int) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    fcntl.flock(handle, fcntl.LOCK_UN)
    return True


def _runs(process: ProcessInfo) -> bool:
    return process.started is not None and process_started(process.pid) == process.started


def _send(process: ProcessInfo, number: signal.Signals) -> None:
    if not _runs(process):
        return
    try:
        os.kill(process.pid, number)
    except ProcessLookupError:
        return
