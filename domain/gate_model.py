"""Gates, the questions they become, and the answers that were given."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from muster.domain.contract import Contract, Timestamp
from muster.domain.identifiers import Digest, NamespaceId, SafeId, SessionId
from muster.domain.runtime import GateOption
from muster.domain.turn_model import Provenance

QuestionStatus = Literal["pending", "resolving", "answered", "stale", "uncertain"]
MalformedGate = Literal[
    "missing_runtime_turn", "invalid_runtime_turn", "invalid_gate_row", "wrong_session"
]


class GateKey(Contract):
    """What names a gate among all sessions."""

    namespace_id: NamespaceId
    session_id: SessionId
    endpoint_incarnation: SafeId
    gate_id: SafeId


class ValidObservation(Contract):
    """A gate that could be read."""

    kind: Literal["valid"] = "valid"
    first_provenance: Provenance


class MalformedObservation(Contract):
    """A gate that couldn't be read; its bytes are known by digest."""

    kind: Literal["malformed"] = "malformed"
    immutable_observation_digest: Digest
    malformed: MalformedGate


class DeferredLink(Contract):
    """The gate's turn isn't known yet."""

    state: Literal["deferred_link"] = "deferred_link"
    first_seen_at: Timestamp


class LinkedGate(Contract):
    """The gate is a question of a turn."""

    state: Literal["pending", "answered"]
    turn_id: SafeId
    question_id: SafeId


class UnlinkedGate(Contract):
    """The gate ended without an answer, or nobody knows how it ended."""

    state: Literal["stale", "uncertain"]
    reason: str
    turn_id: SafeId | None = None
    question_id: SafeId | None = None


class UnownedGate(Contract):
    """Who owns the gate isn't known, or it isn't this session."""

    state: Literal["ownership_unavailable", "ownership_conflict"]
    reason: Literal["ownership_unavailable", "ownership_conflict"]


class GateAuthority(Contract):
    """The one record of a gate: what was seen of it first, and what became of it."""

    authority: GateKey
    observation: Annotated[ValidObservation | MalformedObservation, Field(discriminator="kind")]
    outcome: Annotated[
        DeferredLink | LinkedGate | UnlinkedGate | UnownedGate, Field(discriminator="state")
    ]
    first_seen_at: Timestamp
    updated_at: Timestamp


class GateCodec(Contract):
    """How an answer is written for the runtime."""

    name: Literal["acp.permission"] = "acp.permission"
    version: Literal[1] = 1
    options: tuple[GateOption, ...] = ()


class QuestionHistory(Contract):
    """One status that a question had."""

    at: Timestamp
    status: QuestionStatus
    reason: str | None = None


class Question(Contract):
    """A gate as a person sees it."""

    question_id: SafeId
    authority_id: SafeId
    session_id: SessionId
    turn_id: SafeId
    endpoint_incarnation: SafeId
    stage: str
    kind: str
    prompt: str
    status: QuestionStatus
    binding_plaintext: str
    binding_sha256: Digest
    codec: GateCodec
    claim_fence_epoch: int | None = Field(default=None, ge=1)
    answer_request_id: SafeId | None = None
    created_at: Timestamp
    updated_at: Timestamp
    answered_at: Timestamp | None = None
    answered_option_id: str | None = None
    """What won, also when it wasn't an answer of ours; None for a cancelled gate."""
    history: tuple[QuestionHistory, ...] = ()


class SafeReceipt(Contract):
    """The runtime's word on an answer, without the answer."""

    status: Literal["accepted", "rejected"]
    answer_hash: Digest
    answer_binding_sha256: Digest
    authority_id: SafeId
    turn_id: SafeId
    endpoint_incarnation: SafeId
    claim_fence_epoch: int = Field(ge=1)
    resolved_at: Timestamp


class AnswerRequest(Contract):
    """One caller's answer to a question; without a receipt it is claimed and under way."""

    request_id: SafeId
    key_digest: SafeId
    request_digest: SafeId
    answer_hash: Digest
    answer_binding_sha256: Digest
    authority_id: SafeId
    question_id: SafeId
    turn_id: SafeId
    endpoint_incarnation: SafeId
    sdk_idempotency_key: SafeId
    option_id: str | None = None
    claim_fence_epoch: int = Field(ge=1)
    safe_receipt: SafeReceipt | None = None
    error_code: str | None = None
    created_at: Timestamp
    updated_at: Timestamp
