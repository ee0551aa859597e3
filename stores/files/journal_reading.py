"""Reading a journal without its writers' lock, from any position, beside appends and rotation."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from muster.domain.contract import Contract
from muster.domain.errors import ResyncNeeded
from muster.domain.public_events import PublicEvent
from muster.stores.files import calls
from muster.stores.files.journal_lines import (
    Line,
    decode,
    last_line,
    lines,
    position_after,
)
from muster.stores.files.journal_segments import Segments

PAGE_EVENTS = 1_000
PAGE_BYTES = 8 << 20


class JournalPage(Contract):
    """Some events in order, and where the next page begins."""

    events: tuple[PublicEvent, ...]
    next_after: int
    """What to pass as `after` for the next page; unchanged when there was nothing more."""
    first_available: int
    """The oldest sequence that is still there, 1 while nothing was removed."""
    last: int
    """The newest sequence, 0 when there is none."""
    damaged: tuple[tuple[int, int], ...] = ()
    """Sequences, first and last of each stretch, whose lines can't be read any more."""


@dataclass
class _Page:
    after: int
    limit: int
    events: list[PublicEvent] = field(default_factory=list)
    damaged: list[tuple[int, int]] = field(default_factory=list)
    size: int = 0

    def full(self) -> bool:
        return len(self.events) >= self.limit or self.size >= PAGE_BYTES

    def add(self, event: PublicEvent, size: int) -> None:
        if event.seq > self.after + 1:
            self.damaged.append((self.after + 1, event.seq - 1))
        self.events.append(event)
        self.after = event.seq
        self.size += size


def newest(found: Segments) -> Line | None:
    """The newest line that isn't torn, None when there is none."""
    if found.active is not None:
        return found.active.last
    for first in reversed(found.sealed):
        with found.open(first) as (file, size):
            line = last_line(file, 0, size)
            if line is not None:
                return line
    return None


def page_of(found: Segments, after: int, limit: int, synced: int = 0) -> JournalPage:
    """At most `limit` events after sequence `after`; up to `synced` they are on the disk for sure.

    Raises ResyncNeeded when some of them were removed, FileNotFoundError when a segment was
    removed while it was read: look at the segments again then.
    """
    firsts = found.firsts
    first_available = firsts[0] if firsts else 1
    if after + 1 < first_available:
        raise ResyncNeeded(
            f"the events after {after} were removed up to {first_available - 1}; take the "
            f"sessions' state anew, then read after {first_available - 1}",
            first_available=first_available,
        )
    newest_line = newest(found)
    last = newest_line.seq if newest_line else 0
    page = _Page(after, limit)
    for line_seq, raw in _lines_after(found, after):
        if page.full():
            break
        if page.after < line_seq:
            page.add(decode(raw), len(raw))
    unsynced = page.after > synced
    if unsynced and page.events and newest_line and page.after >= newest_line.batch:
        _settle(found)
    return JournalPage(
        events=tuple(page.events),
        next_after=page.after,
        first_available=first_available,
        last=last,
        damaged=tuple(page.damaged),
    )


def _lines_after(found: Segments, after: int) -> Iterator[tuple[int, bytes]]:
    for first in found.holding(after + 1):
        with found.open(first) as (file, size):
            start = position_after(file, after, size)
            for line, raw in lines(file, start, size):
                yield line.seq, raw


def _settle(found: Segments) -> None:
    """Make sure that a power cut takes nothing back that a reader was shown.

    Only the last batch can be in question: its writer may not have synced it yet. Where it has,
    this costs next to nothing.
    """
    if found.active is not None:
        calls.current().fsync(found.active.file)
    calls.current().fsync(found.folder)
