"""A public event as readers of a namespace get it, the same from every sink.

The journal file gives an event its sequence; each sink holds the same events in the same order.
"""

from __future__ import annotations

from pydantic import Field

from muster.domain.contract import Contract, NonEmpty
from muster.domain.identifiers import NamespaceId, PublicEventId, SafeId, SessionId
from muster.domain.session_document import OutboxEntity, Scalar, SessionDocument

EVENT_BATCH = 128
"""How many events are published together at most, so that no session holds a sink for long."""


class UnsequencedEvent(Contract):
    """A public event that has its id and no place in the journal yet.

    `revision` is the session's revision that caused it.
    """

    public_event_id: PublicEventId
    namespace_id: NamespaceId
    session_id: SessionId
    incarnation: SafeId
    revision: int = Field(ge=1)
    kind: NonEmpty
    entity: OutboxEntity
    entity_id: NonEmpty
    payload: dict[str, Scalar] = Field(default_factory=dict)


class PublicEvent(UnsequencedEvent):
    """One event in a namespace's total order; `seq` counts from 1 without a gap."""

    seq: int = Field(ge=1)


def owed_events(document: SessionDocument) -> list[UnsequencedEvent]:
    """What the journal doesn't have yet, in order of revision and id."""
    incarnation = document.canonical.session.broker.endpoint_incarnation
    owed = [each for each in document.outbox.values() if each.public_delivery.journal_seq is None]
    owed.sort(key=lambda each: (each.transaction_revision, each.public_event_id))
    return [
        UnsequencedEvent(
            public_event_id=event.public_event_id,
            namespace_id=document.namespace_id,
            session_id=document.session_id,
            incarnation=incarnation,
            revision=event.transaction_revision,
            kind=event.kind,
            entity=event.entity,
            entity_id=event.entity_id,
            payload=event.payload,
        )
        for event in owed
    ]
