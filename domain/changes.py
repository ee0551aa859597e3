"""The changes that a session document can take, and what each answers.

A change is repeatable: applied to its own result it changes nothing and answers the same. That
is what makes a commit safe to run twice.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, JsonValue

from muster.domain.contract import Contract, Timestamp
from muster.domain.identifiers import Digest, PublicEventId, SafeId
from muster.domain.runtime import (
    AnswerReceipt,
    DeliverReceipt,
    RejectedEvent,
    RuntimeEvent,
)
from muster.domain.session_document import PromptOperation
from muster.domain.turn_model import Content


class AcceptPrompt(Contract):
    """A caller's prompt."""

    type: Literal["accept_prompt"] = "accept_prompt"
    operation: PromptOperation
    key_digest: Digest
    request_digest: Digest
    content: Content
    source: str = "client"


class PromptAccepted(Contract):
    """The first answer to a prompt's key, and every later one."""

    type: Literal["prompt_accepted"] = "prompt_accepted"
    request_id: SafeId
    turn_id: SafeId
    position: int
    """0 if the turn starts now, else how many turns are ahead of it."""
    repeated: bool = False


class RecordDelivery(Contract):
    """The runtime's receipt for a turn's prompt."""

    type: Literal["record_delivery"] = "record_delivery"
    turn_id: SafeId
    receipt: DeliverReceipt


class RecordEvents(Contract):
    """What the runtime's log says after the document's cursor."""

    type: Literal["record_events"] = "record_events"
    events: tuple[RuntimeEvent, ...]
    rejected: tuple[RejectedEvent, ...] = ()
    cursor: int = Field(ge=0)
    gone: bool = False
    delivered: RecordDelivery | None = None
    """The receipt of the turn that the events are of, if it may not be on record yet."""


class FailTurn(Contract):
    """End a turn for which no event of its own will come."""

    type: Literal["fail_turn"] = "fail_turn"
    turn_id: SafeId
    code: str
    message: str
    recoverable: bool = False
    runtime_gone: bool = False


class ClaimAnswer(Contract):
    """A caller's answer to a question; it names the option, or None to cancel."""

    type: Literal["claim_answer"] = "claim_answer"
    key_digest: Digest
    request_digest: Digest
    question_id: SafeId
    option_id: str | None
    source: str = "client"


class AnswerClaimed(Contract):
    """The claim, with what the runtime must be told, or the receipt when it is settled."""

    type: Literal["answer_claimed"] = "answer_claimed"
    request_id: SafeId
    key_digest: Digest
    question_id: SafeId
    turn_id: SafeId
    gate_id: str
    option_id: str | None
    sdk_idempotency_key: SafeId
    status: Literal["claimed", "accepted", "rejected"]
    repeated: bool = False


class SettleAnswer(Contract):
    """The runtime's word on a claimed answer."""

    type: Literal["settle_answer"] = "settle_answer"
    key_digest: Digest
    receipt: AnswerReceipt


class RequestStop(Contract):
    """Cancel the running turn, and what is queued unless it is kept."""

    type: Literal["request_stop"] = "request_stop"
    key_digest: Digest
    request_digest: Digest
    keep_queue: bool = False
    turn_id: SafeId | None = None
    """Only if this turn runs; None for whichever does."""
    reason: Literal["stopped", "question_timeout"] = "stopped"
    """`question_timeout` makes the turn fail instead of being cancelled."""


class CancelTurn(Contract):
    """Take one queued turn out of the queue."""

    type: Literal["cancel_turn"] = "cancel_turn"
    key_digest: Digest
    request_digest: Digest
    turn_id: SafeId


class OperationDone(Contract):
    """The answer to an operation."""

    type: Literal["operation_done"] = "operation_done"
    operation_id: SafeId
    response: dict[str, JsonValue]
    repeated: bool = False


class FileReport(Contract):
    """An agent's or operator's report."""

    type: Literal["file_report"] = "file_report"
    operation_id: SafeId
    key_digest: Digest
    request_digest: Digest
    turn_id: SafeId | None = None
    status: str
    summary: str
    blocker: str | None = None
    pr_url: str | None = None
    evidence_paths: tuple[str, ...] = ()


class Acknowledgement(Contract):
    """Where the journal has an event."""

    public_event_id: PublicEventId
    journal_seq: int = Field(ge=1)


class AcknowledgeEvents(Contract):
    """Events that both sinks have."""

    type: Literal["acknowledge_events"] = "acknowledge_events"
    acknowledgements: tuple[Acknowledgement, ...]


class AdmitClose(Contract):
    """Close the session: from here on it takes no command."""

    type: Literal["admit_close"] = "admit_close"
    deletion_id: SafeId
    key_digest: Digest
    request_digest: Digest
    incarnation: SafeId
    idle_before: Timestamp | None = None
    """Refuse if there was activity after this moment."""
    force: bool = False
    """Settle an active turn and the queue instead of refusing."""


class CloseAdmitted(Contract):
    """The close is on record."""

    type: Literal["close_admitted"] = "close_admitted"
    deletion_id: SafeId
    turn_ids: tuple[SafeId, ...]
    report_ids: tuple[SafeId, ...]
    settled_turn_ids: tuple[SafeId, ...] = ()
    """What `force` ended."""


class EndClose(Contract):
    """The runtime has ended and the session takes nothing more: its last event is due."""

    type: Literal["end_close"] = "end_close"
    deletion_id: SafeId


class Applied(Contract):
    """A change that has nothing to say beyond the control state."""

    type: Literal["applied"] = "applied"


Change = Annotated[
    AcceptPrompt
    | RecordDelivery
    | RecordEvents
    | FailTurn
    | ClaimAnswer
    | SettleAnswer
    | RequestStop
    | CancelTurn
    | FileReport
    | AcknowledgeEvents
    | AdmitClose
    | EndClose,
    Field(discriminator="type"),
]

Outcome = Annotated[
    PromptAccepted | AnswerClaimed | OperationDone | CloseAdmitted | Applied,
    Field(discriminator="type"),
]
