"""A working copy of a session document: parts are replaced, never changed in place."""

from __future__ import annotations

from muster.domain.gate_model import AnswerRequest, GateAuthority, Question
from muster.domain.identifiers import outbox_id
from muster.domain.session_document import (
    Closing,
    ObservedEndpoint,
    OperationRequest,
    OutboxEntity,
    OutboxEvent,
    PromptRequest,
    PublicDelivery,
    Queue,
    Recovery,
    Report,
    Scalar,
    SessionDocument,
    SessionState,
)
from muster.domain.turn_model import Turn


class Draft:
    """Collects a transition's replacements and makes the next document of them.

    Args:
        document: What the transition starts from; it is never changed.
        at: The time that goes into what the transition writes.
    """

    def __init__(self, document: SessionDocument, at: str) -> None:
        self.base = document
        self.at = at
        canonical, requests = document.canonical, document.requests
        self.turns: dict[str, Turn] = dict(canonical.turns)
        self.reports: dict[str, Report] = dict(canonical.reports)
        self.gates: dict[str, GateAuthority] = dict(canonical.gate_authorities)
        self.questions: dict[str, Question] = dict(canonical.questions)
        self.prompts: dict[str, PromptRequest] = dict(requests.prompts)
        self.answers: dict[str, AnswerRequest] = dict(requests.answers)
        self.operations: dict[str, OperationRequest] = dict(requests.operations)
        self.outbox: dict[str, OutboxEvent] = dict(document.outbox)
        self.queue: Queue = canonical.queue
        self.state: SessionState = canonical.desired_session_state
        self.endpoint: ObservedEndpoint | None = document.endpoint
        self.closing: Closing | None = document.closing
        self.recovery: Recovery = document.recovery

    @property
    def revision(self) -> int:
        """The revision that the next document will have."""
        return self.base.revision + 1

    @property
    def incarnation(self) -> str:
        """The endpoint incarnation that the document belongs to."""
        return self.base.canonical.session.broker.endpoint_incarnation

    @property
    def active_turn(self) -> Turn | None:
        """The turn that runs."""
        active = self.queue.active_turn_id
        return self.turns[active] if active else None

    def update_turn(self, turn: Turn, **changes: object) -> Turn:
        """Replace parts of a turn and note the time."""
        changed = turn.model_copy(update={**changes, "updated_at": self.at})
        self.turns[turn.turn_id] = changed
        return changed

    def update_queue(self, **changes: object) -> None:
        """Replace parts of the queue."""
        self.queue = self.queue.model_copy(update=changes)

    def update_recovery(self, **changes: object) -> None:
        """Replace parts of the recovery facts."""
        self.recovery = self.recovery.model_copy(update=changes)

    def emit(self, kind: str, entity: OutboxEntity, entity_id: str, **payload: Scalar) -> None:
        """Owe a public event to the journal; the same event of one revision is owed once."""
        self.emit_payload(kind, entity, entity_id, payload)

    def emit_payload(
        self, kind: str, entity: OutboxEntity, entity_id: str, payload: dict[str, Scalar]
    ) -> None:
        """`emit` for a payload whose names aren't known in advance."""
        session_id = self.base.session_id
        event_id = outbox_id(session_id, self.revision, kind, entity, entity_id, self.incarnation)
        self.outbox[event_id] = OutboxEvent(
            id=event_id,
            transaction_revision=self.revision,
            kind=kind,
            entity=entity,
            entity_id=entity_id,
            payload={"session_id": session_id, "created_at": self.at, **payload},
            public_event_id=event_id,
            public_delivery=PublicDelivery(public_event_id=event_id),
        )

    def finish(self) -> SessionDocument:
        """The next document, or the very one the draft began with when nothing differs."""
        base = self.base
        canonical = base.canonical.model_copy(
            update={
                "turns": self.turns,
                "reports": self.reports,
                "gate_authorities": self.gates,
                "questions": self.questions,
                "queue": self.queue,
                "desired_session_state": self.state,
            }
        )
        requests = base.requests.model_copy(
            update={
                "prompts": self.prompts,
                "answers": self.answers,
                "operations": self.operations,
            }
        )
        parts = {
            "canonical": canonical,
            "requests": requests,
            "outbox": self.outbox,
            "endpoint": self.endpoint,
            "closing": self.closing,
            "recovery": self.recovery,
        }
        if all(getattr(base, name) == value for name, value in parts.items()):
            return base
        session = canonical.session.model_copy(update={"updated_at": self.at})
        parts["canonical"] = canonical.model_copy(update={"session": session})
        return base.model_copy(update={**parts, "revision": self.revision})
