"""Receipts that outlive the document: the same key hears its first answer after years, too.

A receipt is filed apart from the history it came from, under a digest that follows from the
command, so that a repeated command finds it without reading anything else.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from muster.domain.canonical import sha256_hex
from muster.domain.changes import (
    AcceptPrompt,
    AnswerClaimed,
    CancelTurn,
    Change,
    ClaimAnswer,
    FileReport,
    OperationDone,
    PromptAccepted,
    RequestStop,
)
from muster.domain.contract import Contract
from muster.domain.history import SessionHistory
from muster.domain.identifiers import Digest, SafeId, key_digest
from muster.domain.transitions.admission import require_same_request
from muster.domain.transitions.operations import operation_answer, operation_id_of
from muster.domain.transitions.prompts import prompt_answer
from muster.domain.transitions.questions import answer_outcome

KeyedChange = AcceptPrompt | ClaimAnswer | RequestStop | CancelTurn | FileReport
"""The changes that carry a caller's key."""

ReceiptKind = Literal["prompt", "answer", "operation"]


class ArchivedReceipt(Contract):
    """One command's first answer, and enough of the command to tell another one apart."""

    schema_version: Literal[1] = 1
    kind: ReceiptKind
    key_digest: SafeId
    request_digest: SafeId
    facts: dict[str, str | None] = Field(default_factory=dict)
    """What a conflict can name: the field and its value, or its digest when it may be long."""
    answer: PromptAccepted | AnswerClaimed | OperationDone = Field(discriminator="type")


def receipts_of(removed: SessionHistory) -> dict[Digest, ArchivedReceipt]:
    """The receipts of the removed requests, each under the digest that `filed_under` finds."""
    found: dict[Digest, ArchivedReceipt] = {}
    for prompt in removed.prompts.values():
        found[_file_name("prompt", prompt.key_digest)] = ArchivedReceipt(
            kind="prompt",
            key_digest=prompt.key_digest,
            request_digest=prompt.request_digest,
            facts=_prompt_facts(prompt.operation, prompt.canonical_prompt.text),
            answer=prompt_answer(prompt, repeated=True),
        )
    for claim in removed.answers.values():
        found[_file_name("answer", claim.key_digest)] = ArchivedReceipt(
            kind="answer",
            key_digest=claim.key_digest,
            request_digest=claim.request_digest,
            facts={"question_id": claim.question_id, "option_id": claim.option_id},
            answer=answer_outcome(removed.gate_authorities, claim, repeated=True),
        )
    for operation in removed.operations.values():
        found[_file_name("operation", operation.operation_id)] = ArchivedReceipt(
            kind="operation",
            key_digest=operation.key_digest,
            request_digest=operation.request_digest,
            answer=operation_answer(operation, repeated=True),
        )
    return found


def filed_under(change: Change) -> Digest | None:
    """Where the receipt of this command would be; None for what carries no caller's key."""
    match change:
        case AcceptPrompt():
            return _file_name("prompt", change.key_digest)
        case ClaimAnswer():
            return _file_name("answer", change.key_digest)
        case RequestStop() | CancelTurn() | FileReport():
            return _file_name("operation", operation_id_of(change))
        case _:
            return None


def archived_answer(
    receipt: ArchivedReceipt, change: KeyedChange
) -> PromptAccepted | AnswerClaimed | OperationDone:
    """The first answer to a command that comes back.

    Raises IdempotencyConflict, naming what differs, if it comes back as another request.
    """
    asked: dict[str, str | None] = {}
    if isinstance(change, AcceptPrompt):
        asked = _prompt_facts(change.operation, change.content.text)
    elif isinstance(change, ClaimAnswer):
        asked = {"question_id": change.question_id, "option_id": change.option_id}
    fields = [name for name, value in asked.items() if receipt.facts.get(name) != value]
    require_same_request(receipt.kind, receipt.request_digest, change.request_digest, fields)
    return receipt.answer


def _prompt_facts(operation: str, text: str) -> dict[str, str | None]:
    return {"operation": operation, "text": sha256_hex(text)}


def _file_name(kind: ReceiptKind, name: str) -> Digest:
    return key_digest(f"receipt.{kind}", name)
