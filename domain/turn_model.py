"""A turn: one prompt, how it was handed over, and what became of it."""

from __future__ import annotations

from enum import StrEnum
from typing import Literal

from pydantic import Field, JsonValue

from muster.domain.contract import Contract, NonEmpty, Timestamp
from muster.domain.identifiers import Digest, NamespaceId, SafeId, SessionId


class TurnStatus(StrEnum):
    """Where a turn is; see `ACTIVE_TURN` and `TERMINAL_TURN`."""

    QUEUED = "queued"
    DELIVERING = "delivering"
    ACTIVE = "active"
    WAITING_FOR_ANSWER = "waiting_for_answer"
    COMPLETING = "completing"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"
    SUPERSEDED = "superseded"


ACTIVE_TURN = frozenset(
    {
        TurnStatus.DELIVERING,
        TurnStatus.ACTIVE,
        TurnStatus.WAITING_FOR_ANSWER,
        TurnStatus.COMPLETING,
    }
)
TERMINAL_TURN = frozenset(
    {TurnStatus.COMPLETED, TurnStatus.FAILED, TurnStatus.CANCELLED, TurnStatus.SUPERSEDED}
)


INLINE_CONTENT_BYTES = 32 * 1024
"""The longest text that travels through history and stands in a document; a longer one is stored
first and then named by its sha256, with its beginning as `text`."""


class Content(Contract):
    """A text, or the beginning of a long one with a reference to the whole."""

    text: str
    truncated: bool = False
    length: int | None = None
    """UTF-8 bytes of the whole."""
    sha256: Digest | None = None
    artifact_path: str | None = None


class TurnPrompt(Content):
    """What a turn was asked."""

    created_at: Timestamp
    source: str


class DeliveryAttempt(Contract):
    """One try to hand the prompt over."""

    delivered: bool
    created_at: Timestamp
    reason: str | None = None
    channel: Literal["tmux_keys", "runtime_ack"] | None = None
    tmux_keys_sent: bool | None = None


class Delivery(Contract):
    """Whether and how the runtime got the prompt."""

    delivered: bool = False
    queued: bool = False
    target: str | None = None
    attempts: tuple[DeliveryAttempt, ...] = ()
    prompt_acknowledged: bool | None = None
    state: (
        Literal["queued", "tmux_keys_sent", "acknowledged", "unavailable", "unacknowledged"] | None
    ) = None
    tmux_keys_sent: bool | None = None
    runtime_command_id: SafeId | None = None
    runtime_turn_id: SafeId | None = None


class Provenance(Contract):
    """Which runtime turn a gate belongs to."""

    namespace_id: NamespaceId
    session_id: SessionId
    endpoint_incarnation: SafeId
    coordinator_turn_id: SafeId | Literal[""]
    """Empty while the gate isn't linked to a turn."""
    runtime_turn_id: SafeId
    gate_created_at: Timestamp
    schema_hash: NonEmpty
    stage: NonEmpty
    kind: NonEmpty


class FinalResponse(Content):
    """What the agent said last in a turn."""

    text: str | None = None  # type: ignore[assignment]
    format: Literal["markdown"] = "markdown"
    source: str | None = None


class TurnError(Contract):
    """Why a turn failed."""

    code: str
    message: str
    recoverable: bool


class Liveness(Contract):
    """The last look at whether the agent lives."""

    checked_at: Timestamp | None = None
    live: bool | None = None
    reason: str | None = None


class TerminalFence(Contract):
    """Seals a terminal turn: what arrives later can't change its status."""

    epoch: int = Field(ge=1)
    status: TurnStatus
    reason: str | None = None
    at: Timestamp


class Turn(Contract):
    """One prompt and what became of it."""

    schema_version: Literal[1] = 1
    turn_id: SafeId
    session_id: SessionId
    namespace_id: NamespaceId
    status: TurnStatus
    prompt: TurnPrompt
    delivery: Delivery = Delivery()
    runtime_provenance: Provenance | None = None
    question_ids: tuple[SafeId, ...] = ()
    final_response: FinalResponse = FinalResponse()
    evidence: tuple[dict[str, JsonValue], ...] = ()
    stop_reason: str | None = None
    usage: dict[str, JsonValue] | None = None
    error: TurnError | None = None
    liveness: Liveness = Liveness()
    created_at: Timestamp
    updated_at: Timestamp
    started_at: Timestamp | None = None
    completed_at: Timestamp | None = None
    terminal_fence: TerminalFence | None = None
