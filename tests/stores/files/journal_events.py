"""Public events for journal tests."""

from __future__ import annotations

from pathlib import Path

from muster.domain.public_events import UnsequencedEvent
from muster.stores.files.journal import SEGMENT_BYTES, Journal
from muster.stores.files.private import PrivateTree

FOLDER = "events"


def event(number: int, session: str = "s1", payload: str = "") -> UnsequencedEvent:
    """The event of a session's revision `number`."""
    return UnsequencedEvent(
        public_event_id=f"txn:{session}:{number}:turn.settled:turn:t{number}",
        namespace_id="n",
        session_id=session,
        incarnation="inc1",
        revision=number,
        kind="turn.settled",
        entity="turn",
        entity_id=f"t{number}",
        payload={"text": payload} if payload else {},
    )


def several(first: int, last: int, session: str = "s1") -> list[UnsequencedEvent]:
    """The events of a session's revisions `first` to `last`."""
    return [event(number, session) for number in range(first, last + 1)]


def journal_at(root: Path, segment_bytes: int = SEGMENT_BYTES) -> Journal:
    """The journal beneath a root, as a process opens it that has just started."""
    return Journal(PrivateTree(root), FOLDER, segment_bytes=segment_bytes)


def sequences(journal: Journal, after: int = 0) -> list[int]:
    """What a reader gets that follows from a position to the end."""
    found: list[int] = []
    while (page := journal.read(after, 7)).events:
        found += [each.seq for each in page.events]
        after = page.next_after
    return found


def revisions(journal: Journal, session: str = "s1") -> list[int]:
    """The revisions of a session's events in the journal's order."""
    found: list[int] = []
    after = 0
    while (page := journal.read(after)).events:
        found += [each.revision for each in page.events if each.session_id == session]
        after = page.next_after
    return found
