"""Run a development stack until somebody ends it."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import time
from collections.abc import Callable, Iterator
from typing import Any

from muster.client.local_stack import StackInfo, read_stack
from muster.devstack.model import (
    EventKind,
    OnEvent,
    StackEvent,
    StackOptions,
)
from muster.devstack.stack import Stack
from muster.domain.errors import OwnershipConflict

DESCRIBED_WITHIN_SECONDS = 60.0
"""How long a second start waits for the first to be up, before it shows what there is."""

OnReady = Callable[[StackInfo], None]


async def run_stack(options: StackOptions, on_event: OnEvent, on_ready: OnReady) -> int:
    """Start a stack, keep it until SIGINT or SIGTERM, and stop all of it in order.

    When a stack already runs with the same data folder, it is shown instead and left alone.

    Args:
        on_event: Gets each line of progress.
        on_ready: Gets the description once the stack, or the one found, is up.

    Returns:
        0 for a stop on request and for a stack that was found.

    Raises:
        MusterError: The stack didn't come up, or a part of it doesn't stay up. Nothing of it
            runs then.
    """
    stack = Stack(options, on_event)
    with _stop_requests() as requested:
        starting = asyncio.create_task(stack.start())
        try:
            if not await _first(starting, requested):
                return 0
            info = starting.result()
        except OwnershipConflict:
            return await _show_running(options, on_event, on_ready)
        on_ready(info)
        failing = asyncio.create_task(stack.gave_up())
        try:
            if await _first(failing, requested):
                raise failing.result()
        finally:
            failing.cancel()
            await stack.stop(end_all_agents=not options.keep_agents)
    return 0


async def _first(task: asyncio.Task[Any], requested: asyncio.Event) -> bool:
    """Wait for `task` or a stop request; a stop cancels the task. True if the task came first."""
    stopping = asyncio.create_task(requested.wait())
    await asyncio.wait([task, stopping], return_when=asyncio.FIRST_COMPLETED)
    stopping.cancel()
    if task.done():
        return True
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    return False


async def _show_running(options: StackOptions, on_event: OnEvent, on_ready: OnReady) -> int:
    on_event(StackEvent("stack", EventKind.NOTICE, f"already runs with {options.data_dir}"))
    deadline = time.monotonic() + DESCRIBED_WITHIN_SECONDS
    info = read_stack(options.data_dir)
    while (info is None or info.state == "starting") and time.monotonic() < deadline:
        await asyncio.sleep(0.1)
        info = read_stack(options.data_dir)
    if info is None:
        raise OwnershipConflict(
            f"a stack holds {options.data_dir} but doesn't say what it is; "
            "wait until it has stopped and try again"
        )
    on_ready(info)
    return 0


@contextlib.contextmanager
def _stop_requests() -> Iterator[asyncio.Event]:
    requested = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, requested.set)
    try:
        yield requested
    finally:
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(number)
