"""The summary of a session: what a list of sessions shows, and what one asks for.

A summary follows from one revision of the session's document and nothing else. What has no
document yet (a creation nobody can be sure of) or none any more has a summary as well, so that
a list shows it.
"""

from __future__ import annotations

from enum import StrEnum

from pydantic import Field

from muster.domain.contract import Contract, Timestamp
from muster.domain.control import LastTurn, MusterStatus, control_of
from muster.domain.creation import CreationReceipt
from muster.domain.identifiers import NamespaceId, SafeId, SessionId
from muster.domain.runtime import RuntimeKind
from muster.domain.session_document import SessionDocument

PAGE_LIMIT = 500
"""How many summaries a page holds at most."""


class SessionSummary(Contract):
    """One session as a list shows it."""

    namespace_id: NamespaceId
    session_id: SessionId
    incarnation: SafeId | None = None
    """None as long as no document says which one."""
    generation: int = Field(default=0, ge=0)
    revision: int = Field(default=0, ge=0)
    """Of the document it follows from; 0 if there is none."""
    status: MusterStatus
    title: str | None = None
    cwd: str = ""
    runtime: RuntimeKind | None = None
    model: str | None = None
    source: str | None = None
    visible: bool = True
    ephemeral: bool = False
    queued: int = 0
    open_questions: int = 0
    turns: int = 0
    last_turn: LastTurn | None = None
    gone: str | None = None
    """Why the runtime ended, once it has."""
    uncertain: str | None = None
    """What nobody can say, until somebody resolves it."""
    uncertain_workflow: str | None = None
    """The workflow that waits for the resolution."""
    needs_repair: str | None = None
    """Why the document was set aside."""
    created_at: Timestamp
    updated_at: Timestamp
    activity_at: Timestamp
    closed_at: Timestamp | None = None

    @property
    def key(self) -> str:
        """The one name of the session among all namespaces."""
        return summary_key(self.namespace_id, self.session_id)


def summary_key(namespace_id: str, session_id: str) -> str:
    """The key under which a session's summary is kept."""
    return f"{namespace_id}/{session_id}"


def summary_of(document: SessionDocument) -> SessionSummary:
    """The summary that follows from a document."""
    session = document.canonical.session
    control = control_of(document)
    return SessionSummary(
        namespace_id=document.namespace_id,
        session_id=document.session_id,
        incarnation=session.broker.endpoint_incarnation,
        generation=session.broker.endpoint_generation,
        revision=document.revision,
        status=control.status,
        title=session.title,
        cwd=session.cwd,
        runtime=session.broker.runtime,
        model=session.model,
        source=session.source,
        visible=session.visible,
        ephemeral=session.ephemeral,
        queued=control.queued,
        open_questions=len(control.questions),
        turns=control.turns,
        last_turn=control.last_turn,
        gone=control.gone,
        created_at=session.created_at,
        updated_at=session.updated_at,
        activity_at=control.activity_at,
    )


def summary_of_uncertain_creation(
    receipt: CreationReceipt, reason: str, workflow_id: str | None = None
) -> SessionSummary:
    """The summary of a creation that may or may not have launched an agent.

    Args:
        receipt: The claim.
        reason: What is known and what isn't, for a person.
        workflow_id: The workflow that waits for the resolution.
    """
    request = receipt.request
    return SessionSummary(
        namespace_id=receipt.namespace_id,
        session_id=receipt.session_id,
        status=MusterStatus.UNCERTAIN,
        title=request.title,
        cwd=request.cwd,
        runtime=request.runtime,
        model=request.model,
        source=request.source,
        visible=request.visible,
        ephemeral=request.ephemeral,
        uncertain=reason,
        uncertain_workflow=workflow_id,
        created_at=receipt.created_at,
        updated_at=receipt.created_at,
        activity_at=receipt.created_at,
    )


class SummaryOrder(StrEnum):
    """How a list is sorted."""

    KEY = "key"
    """By namespace and session id: pages show every session that stays exactly once."""
    RECENT = "recent"
    """Newest activity first: a session that becomes active meanwhile moves before the cursor."""


class SummaryQuery(Contract):
    """Which sessions a list shows."""

    namespace_id: NamespaceId | None = None
    statuses: tuple[MusterStatus, ...] = ()
    """Any of them; none means all."""
    prefix: str = ""
    """What the session id begins with."""
    include_closed: bool = False
    """Asking for the status `done` includes closed sessions too."""
    order: SummaryOrder = SummaryOrder.KEY
    after: str | None = None
    """The `next_after` of the page before."""
    limit: int = Field(default=100, ge=1, le=PAGE_LIMIT)


class SummaryPage(Contract):
    """A part of a list; without `next_after` it is the last."""

    summaries: tuple[SessionSummary, ...]
    next_after: str | None = None
