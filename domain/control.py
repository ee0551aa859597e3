"""The small part of a session's document that its workflow works from.

Every commit answers with it, so that the workflow's own state always follows from what is on disk.
"""

from __future__ import annotations

from enum import StrEnum

from muster.domain.changes import AnswerClaimed
from muster.domain.contract import Contract
from muster.domain.runtime import Endpoint
from muster.domain.session_document import SessionDocument, SessionPolicy
from muster.domain.transitions.questions import claims_under_way
from muster.domain.transitions.turns import interrupt_key
from muster.domain.turn_model import Turn, TurnStatus


class MusterStatus(StrEnum):
    """What an operator tells apart at a glance; the search attribute `MusterStatus`."""

    WORKING = "working"
    WAITING = "waiting"
    QUESTION = "question"
    UNCERTAIN = "uncertain"
    CLOSING = "closing"
    DONE = "done"
    FAILED = "failed"


class ActiveTurn(Contract):
    """The turn that runs, as far as the workflow has to know."""

    turn_id: str
    status: TurnStatus
    delivery_key: str
    acknowledged: bool
    runtime_turn_id: str | None = None
    interrupt_key: str | None = None
    """Set when an abort or a stop waits for the turn to settle."""


class OpenQuestion(Contract):
    """A question nobody has answered."""

    question_id: str
    turn_id: str
    opened_at: str
    reject_option_id: str | None = None
    """What a policy of `deny` answers."""


class LastTurn(Contract):
    """The turn that ended last."""

    turn_id: str
    status: TurnStatus


class ControlState(Contract):
    """What follows from one revision of the document."""

    revision: int
    status: MusterStatus
    endpoint: Endpoint
    policy: SessionPolicy
    cursor: int = 0
    active: ActiveTurn | None = None
    queued: int = 0
    next_queued: str | None = None
    questions: tuple[OpenQuestion, ...] = ()
    claims: tuple[AnswerClaimed, ...] = ()
    """Answers that the runtime hasn't confirmed."""
    unacknowledged: int = 0
    """Public events that the journal doesn't have."""
    closing: bool = False
    gone: str | None = None
    title: str | None = None
    turns: int = 0
    last_turn: LastTurn | None = None
    activity_at: str = ""


def control_of(document: SessionDocument) -> ControlState:
    """The control state of a document."""
    canonical = document.canonical
    queue = canonical.queue
    active = canonical.turns[queue.active_turn_id] if queue.active_turn_id else None
    questions = _open_questions(document)
    return ControlState(
        revision=document.revision,
        status=_status(document, active, bool(questions)),
        endpoint=endpoint_of(document),
        policy=document.policy,
        cursor=document.recovery.runtime_cursor,
        active=_active(document, active) if active else None,
        queued=len(queue.ordered_turn_ids),
        next_queued=queue.ordered_turn_ids[0] if queue.ordered_turn_ids else None,
        questions=questions,
        claims=claims_under_way(document),
        unacknowledged=sum(
            event.public_delivery.journal_seq is None for event in document.outbox.values()
        ),
        closing=document.closing is not None,
        gone=document.recovery.runtime_gone_reason,
        title=canonical.session.title,
        turns=len(canonical.turns),
        last_turn=_last_turn(document),
        activity_at=document.recovery.prompt_watermark_at or canonical.session.created_at,
    )


def has_work(control: ControlState) -> bool:
    """True if the document shows something that its workflow ought to be doing."""
    return bool(control.active or control.queued or control.claims or control.unacknowledged) or (
        control.policy.question_on_timeout != "wait" and bool(control.questions)
    )


def endpoint_of(document: SessionDocument) -> Endpoint:
    """Where the document's runtime is reached."""
    broker = document.canonical.session.broker
    return Endpoint(
        runtime=broker.runtime,
        namespace_id=document.namespace_id,
        session_id=document.session_id,
        incarnation=broker.endpoint_incarnation,
        endpoint_url=broker.endpoint_url,
        verifier=broker.sidecar_verifier,
        runtime_queue=broker.runtime_queue,
    )


def _status(document: SessionDocument, active: Turn | None, asking: bool) -> MusterStatus:
    if document.closing is not None:
        return MusterStatus.CLOSING
    if document.recovery.runtime_gone_reason is not None:
        return MusterStatus.FAILED
    if asking:
        return MusterStatus.QUESTION
    return MusterStatus.WORKING if active else MusterStatus.WAITING


def _active(document: SessionDocument, turn: Turn) -> ActiveTurn:
    key = f"prompt_{turn.turn_id}"
    for request in document.requests.prompts.values():
        if request.coordinator_turn_id == turn.turn_id:
            key = request.sdk_idempotency_key
            break
    return ActiveTurn(
        turn_id=turn.turn_id,
        status=turn.status,
        delivery_key=key,
        acknowledged=bool(turn.delivery.prompt_acknowledged),
        runtime_turn_id=turn.delivery.runtime_turn_id,
        interrupt_key=interrupt_key(document, turn),
    )


def _open_questions(document: SessionDocument) -> tuple[OpenQuestion, ...]:
    found = []
    for question in document.canonical.questions.values():
        if question.status != "pending":
            continue
        rejecting = [
            each.option_id for each in question.codec.options if each.kind.startswith("reject")
        ]
        found.append(
            OpenQuestion(
                question_id=question.question_id,
                turn_id=question.turn_id,
                opened_at=question.created_at,
                reject_option_id=rejecting[0] if rejecting else None,
            )
        )
    return tuple(found)


def _last_turn(document: SessionDocument) -> LastTurn | None:
    ended = [turn for turn in document.canonical.turns.values() if turn.terminal_fence]
    if not ended:
        return None
    last = max(ended, key=lambda turn: turn.terminal_fence.epoch if turn.terminal_fence else 0)
    return LastTurn(turn_id=last.turn_id, status=last.status)
