"""Wait for what another process does: asked again until a deadline, no mere pause."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

T = TypeVar("T")


async def eventually(look: Callable[[], T], *, within: float = 15.0, every: float = 0.05) -> T:
    """The first true answer of `look`; an assertion error when none came within the time."""

    async def ask() -> T:
        return look()

    return await eventually_async(ask, within=within, every=every)


async def eventually_async(
    look: Callable[[], Awaitable[T]], *, within: float = 15.0, every: float = 0.05
) -> T:
    """The same for a question whose answer has to be awaited."""
    deadline = time.monotonic() + within
    while True:
        value = await look()
        if value:
            return value
        assert time.monotonic() < deadline, f"not within {within:g} s; last answer {value!r}"
        await asyncio.sleep(every)
