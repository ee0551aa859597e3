"""Heartbeats at an interval, for activities that wait."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Coroutine
from typing import Any, TypeVar

from temporalio import activity

from muster.domain.errors import RuntimeUnavailable

ResultT = TypeVar("ResultT")

HEARTBEAT_SECONDS = 1.0
"""A fifth of the heartbeat timeout in `workflows/policies.py`."""


@contextlib.asynccontextmanager
async def heartbeating() -> AsyncIterator[None]:
    """Heartbeat while the block runs, so that a killed worker is noticed and a cancel arrives.

    What is done before the first is due costs the server no call.
    """

    async def beat() -> None:
        while True:
            await asyncio.sleep(HEARTBEAT_SECONDS)
            activity.heartbeat()

    beating = asyncio.create_task(beat())
    try:
        yield
    finally:
        beating.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await beating


async def until_worker_stops(waiting: Coroutine[Any, Any, ResultT]) -> ResultT:
    """The result of something that may wait for long, unless this worker stops before.

    Raises RuntimeUnavailable when it does: another worker tries again at once, and this one isn't
    held up by what only waits.
    """
    task = asyncio.create_task(waiting)
    stopping = asyncio.create_task(activity.wait_for_worker_shutdown())
    try:
        await asyncio.wait({task, stopping}, return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise RuntimeUnavailable("the worker that waited is stopping; another one goes on")
        return task.result()
    finally:
        for each in (task, stopping):
            each.cancel()
            with contextlib.suppress(asyncio.CancelledError, Exception):
                await each
