"""Processes of a launch: who they are, whose they are, and how all of them end.

A sidecar has a guard as its parent. The guard is a child subreaper: whatever the agent starts
and orphans stays below it, so everything of a launch can be found from the guard down, whatever
session or group it moved itself to.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

_PR_SET_PDEATHSIG = 1
_PR_SET_NAME = 15
_PR_SET_CHILD_SUBREAPER = 36
_PPID, _START_TIME = 1, 19
_libc = ctypes.CDLL(None, use_errno=True)


class ProcessIdentity(NamedTuple):
    """A process that can't be mistaken for a later one with the same id."""

    pid: int
    start_time: int
    """In clock ticks since the boot, from `/proc/<pid>/stat`."""
    boot_id: str


def identify(pid: int) -> ProcessIdentity | None:
    """Who `pid` is now, or None if there is no such process or it is a zombie."""
    fields = _stat(pid)
    if fields is None or fields[0] == "Z":
        return None
    boot_id = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return ProcessIdentity(pid, int(fields[_START_TIME]), boot_id)


async def exit_code_of(process: asyncio.subprocess.Process) -> int:
    """The exit code of a child, at its end.

    `Process.wait` would go on until everybody who inherited the child's pipes has ended too.
    """
    loop = asyncio.get_running_loop()
    ended = asyncio.Event()
    with contextlib.suppress(ProcessLookupError):
        descriptor = os.pidfd_open(process.pid)
        loop.add_reader(descriptor, ended.set)
        try:
            await ended.wait()
        finally:
            loop.remove_reader(descriptor)
            os.close(descriptor)
    while process.returncode is None:
        await asyncio.sleep(0.002)
    return process.returncode


def die_with_parent(parent: int) -> Callable[[], None]:
    """For the time between fork and exec: end this process when its parent `parent` dies."""

    def apply() -> None:
        _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(1)

    return apply


def name_process(name: str) -> None:
    """Show this process as `name` (15 bytes count) in lists of processes."""
    _libc.prctl(_PR_SET_NAME, name.encode(), 0, 0, 0)


def adopt_orphans() -> None:
    """Become the parent of every orphaned descendant."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def ancestors(pid: int) -> list[int]:
    """The parents of `pid`, nearest first."""
    found: list[int] = []
    while (fields := _stat(pid)) is not None and (pid := int(fields[_PPID])) > 0:
        found.append(pid)
    return found


def end_descendants(root: int, *, spare: frozenset[int], seconds: float = 5.0) -> bool:
    """SIGKILL everything below `root` but `spare`; True once nothing of it lives."""
    deadline = time.monotonic() + seconds
    while living := _descendants(root) - spare:
        for pid in living:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        if time.monotonic() > deadline:
            return False
        time.sleep(0.005)
    return True


def _descendants(root: int) -> set[int]:
    children: dict[int, list[int]] = {}
    living: set[int] = set()
    for name in os.listdir("/proc"):  # noqa: PTH208 - names are all that is wanted
        if name.isdigit() and (fields := _stat(int(name))) is not None:
            children.setdefault(int(fields[_PPID]), []).append(int(name))
            if fields[0] != "Z":
                living.add(int(name))
    found: set[int] = set()
    waiting = [root]
    while waiting:
        for child in children.get(waiting.pop(), []):
            found.add(child)
            waiting.append(child)
    return found & living


def _stat(pid: int) -> list[str] | None:
    """The fields of `/proc/<pid>/stat` after the command's name, from the state on."""
    try:
        content = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return None
    return content[content.rindex(")") + 2 :].split()


def _prctl(option: int, value: int) -> None:
    if _libc.prctl(option, value, 0, 0, 0) != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
