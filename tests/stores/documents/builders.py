"""Summaries and events as tests want them."""

from __future__ import annotations

from typing import Any

from muster.domain.control import MusterStatus
from muster.domain.public_events import PublicEvent
from muster.domain.summaries import SessionSummary

NAMESPACE = "team"


def at(minute: int) -> str:
    """A time, later with each minute."""
    return f"2025-03-01T{minute // 60:02d}:{minute % 60:02d}:00.000Z"


def summary(session_id: str = "s-1", revision: int = 1, **changed: Any) -> SessionSummary:
    """A waiting session's summary."""
    fields: dict[str, Any] = {
        "namespace_id": NAMESPACE,
        "session_id": session_id,
        "incarnation": "inc-a",
        "generation": 1,
        "revision": revision,
        "status": MusterStatus.WAITING,
        "title": "$title.of {it}",
        "cwd": "/srv/repository",
        "created_at": at(0),
        "updated_at": at(revision),
        "activity_at": at(revision),
    }
    return SessionSummary(**{**fields, **changed})


def event(seq: int, **changed: Any) -> PublicEvent:
    """The event at a sequence."""
    fields: dict[str, Any] = {
        "seq": seq,
        "public_event_id": f"txn:s-1:{seq}:turn.started:turn:t-{seq}",
        "namespace_id": NAMESPACE,
        "session_id": "s-1",
        "incarnation": "inc-a",
        "revision": seq,
        "kind": "turn.started",
        "entity": "turn",
        "entity_id": f"t-{seq}",
        "payload": {"$number": seq, "a.b": None, "text": "ö"},
    }
    return PublicEvent(**{**fields, **changed})


def events(first: int, last: int) -> list[PublicEvent]:
    """The events from one sequence to another, both included."""
    return [event(seq) for seq in range(first, last + 1)]
