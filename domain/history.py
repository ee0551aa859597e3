"""What a session's document no longer holds: its removed parts, and the receipts that stay.

A removed part is archived before the document shrinks, one archive for each endpoint incarnation.
What is in an archive stays as it was filed first.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from muster.domain.contract import Contract
from muster.domain.gate_model import AnswerRequest, GateAuthority, Question
from muster.domain.identifiers import NamespaceId, SafeId, SessionId
from muster.domain.session_document import (
    OperationRequest,
    OutboxEvent,
    PromptRequest,
    Report,
    SessionDocument,
)
from muster.domain.turn_model import Turn

PARTS = (
    "turns",
    "questions",
    "gate_authorities",
    "reports",
    "prompts",
    "answers",
    "operations",
    "outbox",
)
"""The collections that compaction removes from."""


class SessionHistory(Contract):
    """What one compaction takes out: a file of `history/<incarnation>/`."""

    schema_version: Literal[1] = 1
    namespace_id: NamespaceId
    session_id: SessionId
    endpoint_incarnation: SafeId
    turns: dict[str, Turn] = Field(default_factory=dict)
    questions: dict[str, Question] = Field(default_factory=dict)
    gate_authorities: dict[str, GateAuthority] = Field(default_factory=dict)
    reports: dict[str, Report] = Field(default_factory=dict)
    prompts: dict[str, PromptRequest] = Field(default_factory=dict)
    answers: dict[str, AnswerRequest] = Field(default_factory=dict)
    operations: dict[str, OperationRequest] = Field(default_factory=dict)
    outbox: dict[str, OutboxEvent] = Field(default_factory=dict)

    @property
    def is_empty(self) -> bool:
        """True if nothing is filed in any part."""
        return not any(getattr(self, part) for part in PARTS)


def empty_history(document: SessionDocument) -> SessionHistory:
    """The archive of the document's incarnation before anything is filed."""
    return SessionHistory(
        namespace_id=document.namespace_id,
        session_id=document.session_id,
        endpoint_incarnation=document.canonical.session.broker.endpoint_incarnation,
    )


def whole_history(document: SessionDocument) -> SessionHistory:
    """Everything that the document holds, as an archive has it."""
    canonical, requests = document.canonical, document.requests
    return empty_history(document).model_copy(
        update={
            "turns": canonical.turns,
            "questions": canonical.questions,
            "gate_authorities": canonical.gate_authorities,
            "reports": canonical.reports,
            "prompts": requests.prompts,
            "answers": requests.answers,
            "operations": requests.operations,
            "outbox": document.outbox,
        }
    )
