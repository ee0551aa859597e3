"""A namespace's public events for readers: from MongoDB, or from the journal on this machine.

Both hold the same events under the same sequences, so a reader may change from one to the other
and go on from where it was.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Final

from muster.domain.errors import InvalidInput, ResyncNeeded
from muster.domain.public_events import PublicEvent
from muster.stores.documents.connection import Mongo
from muster.stores.documents.public_events import PublicEvents
from muster.stores.files.journals import Journals
from muster.stores.files.private import PrivateTree

PAGE_EVENTS: Final = 500
POLL_SECONDS: Final = 0.1
SLOWEST_POLL_SECONDS: Final = 1.0
"""Every look without news is a quarter further away, up to this."""

ReadPage = Callable[[int, int], Awaitable[tuple[PublicEvent, ...]]]
"""From a sequence and a number: at most so many of the events after it; empty at the end.

Raises ResyncNeeded when some of them were removed."""


def mongo_source(mongo: Mongo, namespace: str) -> ReadPage:
    """The events in MongoDB."""
    sink = PublicEvents(mongo)

    async def read(after: int, limit: int) -> tuple[PublicEvent, ...]:
        events = await sink.read(namespace, after, limit)
        if not events or events[0].seq == after + 1:
            return events
        first = await sink.first_seq(namespace)
        if first > after + 1:
            raise ResyncNeeded(
                f"the events after {after} were removed up to {first - 1}; take the sessions' "
                f"state anew, then read after {first - 1}",
                first_available=first,
            )
        return events

    return read


def journal_source(state_root: Path, namespace: str) -> ReadPage:
    """The events in the journal beneath a state root of this machine.

    Raises:
        InvalidInput: There is no such folder.
    """
    if not state_root.is_dir():
        raise InvalidInput(
            f"{state_root} isn't a state root on this machine; give --state-root, or read from "
            "MongoDB with --source mongo"
        )
    journal = Journals(PrivateTree(state_root)).of(namespace)

    async def read(after: int, limit: int) -> tuple[PublicEvent, ...]:
        return (await asyncio.to_thread(journal.read, after, limit)).events

    return read


async def tail(
    read: ReadPage, after: int, *, limit: int | None = None, follow: bool = False
) -> AsyncIterator[PublicEvent]:
    """The events after a sequence, in order, each once.

    Args:
        read: Where from.
        after: The sequence that was seen last; 0 for the beginning.
        limit: How many at most.
        follow: Wait for more instead of ending with the last.

    Raises:
        ResyncNeeded: Some of the events after this position were removed; `first_available` says
            where they begin now.
    """
    left, pause = limit, POLL_SECONDS
    while left is None or left > 0:
        page = await read(after, PAGE_EVENTS if left is None else min(PAGE_EVENTS, left))
        for event in page:
            yield event
            after = event.seq
        if left is not None:
            left -= len(page)
        if page:
            pause = POLL_SECONDS
        elif not follow:
            return
        else:
            await asyncio.sleep(pause)
            pause = min(pause * 1.25, SLOWEST_POLL_SECONDS)
