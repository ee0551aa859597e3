"""What the runtime's log and the journal say, applied to the document."""

from __future__ import annotations

from pydantic import JsonValue

from muster.domain.changes import AcknowledgeEvents, Applied, FailTurn, RecordEvents
from muster.domain.draft import Draft
from muster.domain.runtime import (
    AgentExited,
    DeliverReceipt,
    EndpointClosed,
    GateClosed,
    GateOpened,
    RuntimeEvent,
    TurnEnded,
    TurnStarted,
)
from muster.domain.session_document import SessionState
from muster.domain.transitions.gates import close_gate, observe_gate, observe_malformed
from muster.domain.transitions.prompts import acknowledge, record_delivery
from muster.domain.transitions.turns import (
    end_queued_turns,
    end_turn,
    is_replaced,
    stopped_for,
)
from muster.domain.turn_model import FinalResponse, Turn, TurnError, TurnStatus


def record_events(draft: Draft, change: RecordEvents) -> Applied:
    """Apply the events after the document's cursor, in order, and move the cursor.

    It stops before a gate whose turn isn't known yet, unless the runtime is gone: then nothing
    will come that says more.
    """
    cursor = draft.recovery.runtime_cursor
    if change.delivered is not None:
        record_delivery(draft, change.delivered)
    for rejected in change.rejected:
        observe_malformed(draft, rejected)
    reached = max(change.cursor, cursor)
    for event in change.events:
        if event.seq <= cursor:
            continue
        if not _record(draft, event, last_word=change.gone):
            reached = event.seq - 1
            break
    if reached != cursor:
        draft.update_recovery(runtime_cursor=reached)
    if change.gone:
        runtime_is_gone(draft, "the runtime has ended")
    return Applied()


def _record(draft: Draft, event: RuntimeEvent, *, last_word: bool) -> bool:
    match event:
        case TurnStarted():
            turn = draft.turns.get(event.turn_id)
            if turn is not None:
                receipt = DeliverReceipt(
                    command_id=event.command_id, runtime_turn_id=event.runtime_turn_id
                )
                acknowledge(draft, turn, receipt)
        case GateOpened():
            return observe_gate(draft, event, may_wait=not last_word)
        case GateClosed():
            close_gate(draft, event)
        case TurnEnded():
            _turn_ended(draft, event)
        case AgentExited():
            runtime_is_gone(draft, event.reason or f"agent exited with {event.exit_code}")
        case EndpointClosed():
            runtime_is_gone(draft, "closed")
        case _:
            pass
    return True


_FAILED = {
    "refusal": ("agent_refusal", "the agent refused to go on", True),
    "error": ("agent_error", "the agent ended the turn with an error", False),
    "cancelled": ("question_timeout", "nobody answered the turn's question in time", True),
}


def _turn_ended(draft: Draft, event: TurnEnded) -> None:
    turn = draft.turns.get(event.turn_id)
    if turn is None:
        return
    if turn.terminal_fence is not None:
        _file_late_evidence(draft, turn, event)
        return
    receipt = DeliverReceipt(
        command_id=turn.delivery.runtime_command_id or event.runtime_turn_id,
        runtime_turn_id=event.runtime_turn_id,
    )
    acknowledge(draft, turn, receipt)
    status = _terminal_status(draft, turn, event)
    error = None
    if status == TurnStatus.FAILED:
        code, message, recoverable = _FAILED[event.stop_reason]
        error = TurnError(code=code, message=event.error or message, recoverable=recoverable)
    end_turn(
        draft,
        draft.turns[turn.turn_id],
        status,
        reason=None if status == TurnStatus.COMPLETED else event.stop_reason,
        error=error,
        response=_response(event),
        stop_reason=event.stop_reason,
        usage=event.usage,
        evidence=(*turn.evidence, _head_evidence(event)),
    )


def _terminal_status(draft: Draft, turn: Turn, event: TurnEnded) -> TurnStatus:
    if event.stop_reason == "cancelled":
        if is_replaced(draft, turn):
            return TurnStatus.SUPERSEDED
        timed_out = stopped_for(draft, turn, "question_timeout")
        return TurnStatus.FAILED if timed_out else TurnStatus.CANCELLED
    return TurnStatus.FAILED if event.stop_reason in _FAILED else TurnStatus.COMPLETED


def _response(event: TurnEnded) -> FinalResponse:
    said = event.response
    return FinalResponse(
        text=said.text,
        source="runtime",
        truncated=said.truncated,
        length=said.length,
        sha256=said.sha256,
        artifact_path=said.artifact_path,
    )


def _head_evidence(event: TurnEnded) -> dict[str, JsonValue]:
    return {
        "kind": "working_tree",
        "head_before": event.head_before,
        "head_after": event.head_after,
        "seq": event.seq,
    }


def _file_late_evidence(draft: Draft, turn: Turn, event: TurnEnded) -> None:
    """A turn that was sealed without its runtime's word keeps that word; its status stays."""
    late: dict[str, JsonValue] = {
        "kind": "late_end",
        "stop_reason": event.stop_reason,
        "seq": event.seq,
    }
    draft.update_turn(
        turn,
        evidence=(*turn.evidence, late, _head_evidence(event)),
        final_response=_response(event),
    )


def runtime_is_gone(draft: Draft, reason: str) -> None:
    """No event will come any more: what runs and what waits ends with a report that says so."""
    if draft.recovery.runtime_gone_reason is not None:
        return
    draft.update_recovery(runtime_gone_reason=reason)
    end_queued_turns(draft, TurnStatus.FAILED, "runtime_gone")
    active = draft.active_turn
    if active is not None:
        error = TurnError(code="runtime_gone", message=reason, recoverable=False)
        end_turn(draft, active, TurnStatus.FAILED, reason="runtime_gone", error=error)
    if draft.closing is None:
        draft.state = SessionState.ERRORED
        draft.emit("session.errored", "session", draft.base.session_id, reason=reason)


def fail_turn(draft: Draft, change: FailTurn) -> Applied:
    """End a turn that nothing more will be heard of."""
    if change.runtime_gone:
        end_queued_turns(draft, TurnStatus.FAILED, "runtime_gone")
    turn = draft.turns.get(change.turn_id)
    if turn is not None and turn.terminal_fence is None:
        error = TurnError(code=change.code, message=change.message, recoverable=change.recoverable)
        end_turn(draft, turn, TurnStatus.FAILED, reason=change.code, error=error)
    if change.runtime_gone:
        runtime_is_gone(draft, change.message)
    return Applied()


def acknowledge_events(draft: Draft, change: AcknowledgeEvents) -> Applied:
    """Note where the journal has the events; an acknowledged one stays as it is."""
    by_public_id = {event.public_event_id: event for event in draft.outbox.values()}
    for each in change.acknowledgements:
        event = by_public_id.get(each.public_event_id)
        if event is None or event.public_delivery.journal_seq is not None:
            continue
        delivery = event.public_delivery.model_copy(
            update={"journal_seq": each.journal_seq, "acknowledged_at": draft.at}
        )
        draft.outbox[event.id] = event.model_copy(update={"public_delivery": delivery})
    return Applied()
