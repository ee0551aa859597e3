"""The canonical document of a session: facts only, no phase.

Field names, statuses and patterns are those of the system Muster replaces (its session
transaction), less its phases, leases and repair markers: what had a phase there has its evidence
here (a receipt, a response), and progress lives in workflow history.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Literal

from pydantic import Field, JsonValue

from muster.domain.contract import Contract, NonEmpty, Timestamp
from muster.domain.gate_model import AnswerRequest, GateAuthority, Question
from muster.domain.identifiers import (
    Digest,
    NamespaceId,
    PublicEventId,
    ReportId,
    SafeId,
    SessionId,
)
from muster.domain.runtime import DeliverReceipt, RuntimeKind, Verifier
from muster.domain.turn_model import Turn

Scalar = str | int | float | bool | None


class SessionState(StrEnum):
    """What the session is meant to be; readers see it in the projection."""

    BOOTING = "booting"
    PREPARED = "prepared"
    READY_FOR_INPUT = "ready_for_input"
    RUNNING = "running"
    NEEDS_USER_INPUT = "needs_user_input"
    COMPLETED = "completed"
    ERRORED = "errored"
    STALE = "stale"
    UNKNOWN = "unknown"


PromptOperation = Literal["turn.prompt", "turn.follow_up", "turn.abort_and_prompt"]
OutboxEntity = Literal["turn", "question", "report", "session", "deletion"]


class Tmux(Contract):
    """The terminal that shows the session, if one does."""

    session: str | None = None
    window: str | None = None
    pane: str | None = None


class Broker(Contract):
    """The endpoint that owns the agent."""

    workspace: str | None = None
    runtime: RuntimeKind = RuntimeKind.ACP
    endpoint_url: str
    endpoint_generation: int = Field(ge=0)
    endpoint_incarnation: SafeId
    sidecar_verifier: Verifier
    runtime_queue: str | None = None
    """The task queue of the host that owns the agent."""


class SessionSnapshot(Contract):
    """The session itself, as its creator asked for it and the runtime gave it."""

    schema_version: Literal[1] = 1
    namespace_id: NamespaceId
    session_id: SessionId
    cwd: NonEmpty
    created_at: Timestamp
    updated_at: Timestamp
    title: str | None = None
    mpreset: str | None = None
    source: str | None = None
    model: str | None = None
    tmux: Tmux = Tmux()
    broker: Broker
    ephemeral: bool = False
    visible: bool = True


class Promotion(Contract):
    """The turn that follows another as soon as that one has settled."""

    from_turn_id: SafeId
    to_turn_id: SafeId
    revision: int


class Queue(Contract):
    """The turns that wait, in order, and the one that runs."""

    ordered_turn_ids: tuple[SafeId, ...] = ()
    active_turn_id: SafeId | None = None
    selected_promotion: Promotion | None = None


class Report(Contract):
    """A statement about a turn that stays when the turn's detail goes."""

    schema_version: Literal[1] = 1
    report_id: ReportId
    operation_id: SafeId
    session_id: SessionId
    turn_id: SafeId | Literal[""]
    status: str
    summary: str
    blocker: str | None = None
    pr_url: str | None = None
    evidence_paths: tuple[str, ...] = ()
    created_at: Timestamp


class CanonicalPrompt(Contract):
    """The text that a prompt request's digest covers, or its beginning."""

    text: str


class PromptRequest(Contract):
    """One caller's prompt, filed under its key's digest for ever."""

    request_id: SafeId
    key_digest: SafeId
    request_digest: SafeId
    operation: PromptOperation
    canonical_prompt: CanonicalPrompt
    sdk_idempotency_key: SafeId
    runtime_receipt: DeliverReceipt | None = None
    coordinator_turn_id: SafeId | None = None
    safe_response: dict[str, JsonValue] | None = None
    error_code: str | None = None
    created_at: Timestamp
    updated_at: Timestamp


class OperationRequest(Contract):
    """One caller's operation on the session; without a response it is under way."""

    operation_id: SafeId
    tool: str
    key_digest: SafeId
    request_digest: SafeId
    local_id: SafeId
    remote_id: SafeId | None = None
    intent: dict[str, JsonValue]
    safe_response: dict[str, JsonValue] | None = None
    error_code: str | None = None
    created_at: Timestamp
    updated_at: Timestamp


class PublicDelivery(Contract):
    """Where a public event is in the namespace's journal; no sequence means not yet there."""

    public_event_id: PublicEventId
    journal_seq: int | None = Field(default=None, ge=1)
    acknowledged_at: Timestamp | None = None


class OutboxEvent(Contract):
    """A public event that this session owes to the journal."""

    id: NonEmpty
    transaction_revision: int = Field(ge=1)
    kind: NonEmpty
    entity: OutboxEntity
    entity_id: NonEmpty
    payload: dict[str, Scalar]
    public_event_id: PublicEventId
    public_delivery: PublicDelivery


class Canonical(Contract):
    """Everything a reader may want to know."""

    session: SessionSnapshot
    turns: dict[str, Turn] = Field(default_factory=dict)
    queue: Queue = Queue()
    desired_session_state: SessionState
    reports: dict[str, Report] = Field(default_factory=dict)
    gate_authorities: dict[str, GateAuthority] = Field(default_factory=dict)
    questions: dict[str, Question] = Field(default_factory=dict)


class Requests(Contract):
    """What callers asked for: prompts and answers by key digest, operations by id."""

    prompts: dict[str, PromptRequest] = Field(default_factory=dict)
    answers: dict[str, AnswerRequest] = Field(default_factory=dict)
    operations: dict[str, OperationRequest] = Field(default_factory=dict)


class ObservedEndpoint(Contract):
    """The incarnation that was seen last."""

    incarnation: SafeId
    observed_at: Timestamp


class SessionPolicy(Contract):
    """What the creator decided for the times when nobody is there."""

    queue_limit: int = Field(default=64, ge=1, le=1000)
    question_timeout_seconds: int | None = Field(default=None, ge=1)
    question_on_timeout: Literal["wait", "deny", "fail"] = "wait"
    idle_close_seconds: int | None = Field(default=None, ge=1)
    """Close the session after so long without a prompt, an answer or a turn's end."""
    idle_close_with_question: bool = False
    """Close it then even while it waits for an answer."""


class Closing(Contract):
    """The admitted close; from here on the session takes no command."""

    deletion_id: SafeId
    key_digest: SafeId
    request_digest: SafeId
    admitted_at: Timestamp
    settled_turn_ids: tuple[SafeId, ...] = ()
    """The turns that the close ended."""
    ended_at: Timestamp | None = None
    """Set with the session's last event; from here on only its publication changes anything."""


class Recovery(Contract):
    """Facts for idleness and repair."""

    prompt_watermark_at: Timestamp | None = None
    last_repaired_at: Timestamp | None = None
    runtime_cursor: int = Field(default=0, ge=0)
    """The last event of the runtime's log that is applied."""
    runtime_gone_reason: str | None = None
    """Set once when the runtime has ended for good."""


class SessionDocument(Contract):
    """`session.json`."""

    schema_version: Literal[2] = 2
    creation_intent_digest: Digest
    namespace_id: NamespaceId
    session_id: SessionId
    revision: int = Field(ge=1)
    endpoint: ObservedEndpoint | None
    policy: SessionPolicy = SessionPolicy()
    canonical: Canonical
    requests: Requests = Requests()
    outbox: dict[str, OutboxEvent] = Field(default_factory=dict)
    closing: Closing | None = None
    recovery: Recovery = Recovery()


def encode(document: SessionDocument) -> bytes:
    """The bytes of `session.json`."""
    return document.model_dump_json(exclude_none=False).encode()
