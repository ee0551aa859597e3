"""How a turn starts and ends, and which one comes next."""

from __future__ import annotations

from pydantic import JsonValue

from muster.domain.draft import Draft
from muster.domain.identifiers import report_id
from muster.domain.session_document import Promotion, Report, SessionDocument, SessionState
from muster.domain.transitions.gates import cancel_open_questions
from muster.domain.turn_model import (
    FinalResponse,
    TerminalFence,
    Turn,
    TurnError,
    TurnStatus,
)

SUMMARY_LENGTH = 400
TURN_END_PREFIX = "turn-end:"
"""Begins the operation id of the report that a turn leaves."""


def start_turn(draft: Draft, turn: Turn) -> Turn:
    """Make a turn the active one; its prompt still has to be delivered."""
    draft.update_queue(
        ordered_turn_ids=tuple(
            each for each in draft.queue.ordered_turn_ids if each != turn.turn_id
        ),
        active_turn_id=turn.turn_id,
    )
    draft.state = SessionState.RUNNING
    return draft.update_turn(
        turn,
        status=TurnStatus.DELIVERING,
        started_at=draft.at,
        delivery=turn.delivery.model_copy(update={"queued": False}),
    )


def end_turn(
    draft: Draft,
    turn: Turn,
    status: TurnStatus,
    *,
    reason: str | None = None,
    error: TurnError | None = None,
    response: FinalResponse | None = None,
    **evidence: object,
) -> Turn:
    """Seal a turn with its terminal status, file its report and start the next one.

    `evidence` are further fields of the turn (stop reason, usage, evidence records).
    """
    cancel_open_questions(draft, turn, reason or status.value)
    ended = draft.update_turn(
        draft.turns[turn.turn_id],
        status=status,
        completed_at=draft.at,
        delivery=turn.delivery.model_copy(update={"queued": False}),
        terminal_fence=TerminalFence(
            epoch=draft.revision, status=status, reason=reason, at=draft.at
        ),
        error=error,
        final_response=response or turn.final_response,
        **evidence,
    )
    draft.update_recovery(prompt_watermark_at=draft.at)
    _answer_stops(draft, ended)
    file_turn_report(draft, ended)
    draft.emit(f"turn.{status.value}", "turn", turn.turn_id, status=status.value, reason=reason)
    if draft.queue.active_turn_id == turn.turn_id:
        draft.update_queue(active_turn_id=None)
        promote_next_turn(draft, turn.turn_id)
    else:
        _drop_from_queue(draft, turn.turn_id)
    return ended


def promote_next_turn(draft: Draft, ended_turn_id: str) -> None:
    """Start the turn selected by an abort, else the first in the queue, else wait for input."""
    promotion = draft.queue.selected_promotion
    waiting = draft.queue.ordered_turn_ids
    chosen = None
    if promotion is not None and promotion.from_turn_id == ended_turn_id:
        chosen = promotion.to_turn_id if promotion.to_turn_id in waiting else None
    chosen = chosen or (waiting[0] if waiting else None)
    if chosen is None or draft.closing is not None:
        if draft.state in (SessionState.RUNNING, SessionState.NEEDS_USER_INPUT):
            draft.state = SessionState.READY_FOR_INPUT
        return
    draft.update_queue(
        selected_promotion=Promotion(
            from_turn_id=ended_turn_id, to_turn_id=chosen, revision=draft.revision
        )
    )
    start_turn(draft, draft.turns[chosen])


def end_queued_turns(draft: Draft, status: TurnStatus, reason: str) -> list[str]:
    """End every queued turn, each with its report; returns their ids."""
    ended = list(draft.queue.ordered_turn_ids)
    for turn_id in ended:
        end_turn(draft, draft.turns[turn_id], status, reason=reason)
    return ended


def file_turn_report(draft: Draft, turn: Turn) -> None:
    """The report that every ended turn leaves."""
    operation_id = f"{TURN_END_PREFIX}{turn.turn_id}"
    identifier = report_id(operation_id)
    text = turn.error.message if turn.error else (turn.final_response.text or "")
    summary = " ".join(text.split())[:SUMMARY_LENGTH]
    draft.reports[identifier] = Report(
        report_id=identifier,
        operation_id=operation_id,
        session_id=draft.base.session_id,
        turn_id=turn.turn_id,
        status=turn.status.value,
        summary=summary or (turn.terminal_fence.reason if turn.terminal_fence else "") or "",
        blocker=turn.error.code if turn.error else None,
        created_at=draft.at,
    )


def is_replaced(draft: Draft, turn: Turn) -> bool:
    """True if the turn was aborted for another one that still waits to follow it."""
    promotion = draft.queue.selected_promotion
    return (
        promotion is not None
        and promotion.from_turn_id == turn.turn_id
        and promotion.to_turn_id in draft.queue.ordered_turn_ids
    )


def stopped_for(draft: Draft, turn: Turn, reason: str) -> bool:
    """True if a stop with this reason waits for the turn to settle."""
    return any(
        operation.intent.get("kind") == "stop"
        and operation.intent.get("turn_id") == turn.turn_id
        and operation.intent.get("reason") == reason
        for operation in draft.operations.values()
    )


def interrupt_key(document: SessionDocument, turn: Turn) -> str | None:
    """The key under which the runtime is told to cancel this turn, if anybody wants that."""
    for operation in document.requests.operations.values():
        intent = operation.intent
        if intent.get("kind") == "stop" and intent.get("turn_id") == turn.turn_id:
            return f"interrupt_{operation.operation_id}"
    promotion = document.canonical.queue.selected_promotion
    if promotion is not None and promotion.from_turn_id == turn.turn_id:
        return f"interrupt_{promotion.from_turn_id}"
    return None


def _answer_stops(draft: Draft, turn: Turn) -> None:
    for operation in list(draft.operations.values()):
        wanted = operation.intent.get("turn_id") == turn.turn_id
        if operation.intent.get("kind") == "stop" and wanted and operation.safe_response is None:
            cancelled = operation.intent.get("cancelled_queued", [])
            response: dict[str, JsonValue] = {
                "turn_id": turn.turn_id,
                "status": turn.status.value,
                "cancelled_queued": cancelled,
            }
            draft.operations[operation.operation_id] = operation.model_copy(
                update={"safe_response": response, "updated_at": draft.at}
            )


def _drop_from_queue(draft: Draft, turn_id: str) -> None:
    draft.update_queue(
        ordered_turn_ids=tuple(each for each in draft.queue.ordered_turn_ids if each != turn_id)
    )
