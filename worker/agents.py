"""End every agent of a state root.

Agents outlive workers on purpose. When a development stack ends, a person expects that nothing
of it runs on; the sessions then find their runtime gone, as after a reboot.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import time
from pathlib import Path

from muster.runtimes.acp import layout
from muster.runtimes.acp.processes import identify
from muster.runtimes.acp.record import recorded_processes

END_SECONDS = 10.0
"""Between SIGTERM and SIGKILL to a sidecar."""

_POLL_SECONDS = 0.05


async def end_agents(state_root: Path) -> int:
    """End every living sidecar below `state_root`, and with it its agent; how many there were.

    Only what holds its launch folder's lock and is, by pid, start time and boot, the process that
    the folder names.
    """
    living = [each for each in _launch_folders(state_root) if layout.is_alive(each)]
    ended = sum(_send(each, signal.SIGTERM) for each in living)
    deadline = time.monotonic() + END_SECONDS
    while any(layout.is_alive(each) for each in living) and time.monotonic() < deadline:
        await asyncio.sleep(_POLL_SECONDS)
    for each in living:
        if layout.is_alive(each):
            _send(each, signal.SIGKILL)
    return ended


def _launch_folders(state_root: Path) -> list[Path]:
    found = state_root.glob(f"v2/*/sessions/*/runtime/*/{layout.LAUNCH}")
    return [each.parent for each in found]


def _send(folder: Path, number: signal.Signals) -> bool:
    """Signal the sidecar, if it is still the process that its record names."""
    record = layout.read_json(folder / layout.LAUNCH) or {}
    for process in recorded_processes(record)[:1]:
        if identify(process.pid) == process:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process.pid, number)
            return True
    return False
