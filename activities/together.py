"""Several things at once, of which none is left running."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any


async def all_of(*works: Awaitable[Any]) -> list[Any]:
    """Their results in order, or the first error once all have ended.

    Raised only then: a later attempt may not meet a thread of this one at the same files.
    """
    done = await asyncio.gather(*works, return_exceptions=True)
    for each in done:
        if isinstance(each, BaseException):
            raise each
    return done
