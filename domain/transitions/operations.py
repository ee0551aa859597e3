"""Stop, cancel of a queued turn, and reports; each answered once for its key."""

from __future__ import annotations

from pydantic import JsonValue

from muster.domain.changes import CancelTurn, FileReport, OperationDone, RequestStop
from muster.domain.draft import Draft
from muster.domain.errors import ActiveTurnExists, InvalidInput, ResourceGone
from muster.domain.identifiers import report_id
from muster.domain.session_document import OperationRequest, Report
from muster.domain.transitions.admission import require_open, require_same_request
from muster.domain.transitions.turns import TURN_END_PREFIX, end_queued_turns, end_turn
from muster.domain.turn_model import TERMINAL_TURN, TurnStatus


def _known_operation(
    draft: Draft, operation_id: str, request_digest: str
) -> OperationRequest | None:
    known = draft.operations.get(operation_id)
    if known is not None:
        require_same_request("operation", known.request_digest, request_digest, [])
    return known


def operation_answer(operation: OperationRequest, *, repeated: bool) -> OperationDone:
    """What an operation's key is answered: its response, or that it is under way."""
    under_way: dict[str, JsonValue] = {**operation.intent, "status": "requested"}
    return OperationDone(
        operation_id=operation.operation_id,
        response=operation.safe_response or under_way,
        repeated=repeated,
    )


def operation_id_of(change: RequestStop | CancelTurn | FileReport) -> str:
    """The id under which an operation is filed."""
    match change:
        case RequestStop():
            return f"stop-{change.key_digest[:32]}"
        case CancelTurn():
            return f"cancel-{change.key_digest[:32]}"
        case FileReport():
            return change.operation_id


def _file(
    draft: Draft,
    operation_id: str,
    tool: str,
    change: RequestStop | CancelTurn | FileReport,
    intent: dict[str, JsonValue],
    response: dict[str, JsonValue] | None,
) -> OperationDone:
    operation = OperationRequest(
        operation_id=operation_id,
        tool=tool,
        key_digest=change.key_digest,
        request_digest=change.request_digest,
        local_id=draft.base.session_id,
        intent=intent,
        safe_response=response,
        created_at=draft.at,
        updated_at=draft.at,
    )
    draft.operations[operation_id] = operation
    return operation_answer(operation, repeated=False)


def request_stop(draft: Draft, change: RequestStop) -> OperationDone:
    """Ask for the running turn's end and end what is queued; with nothing to stop, succeed.

    The answer says `requested` while the turn still has to settle; the operation's response is
    filled in when it has. A stop of one named turn touches nothing when that turn doesn't run.
    """
    operation_id = operation_id_of(change)
    known = _known_operation(draft, operation_id, change.request_digest)
    if known is not None:
        return operation_answer(known, repeated=True)
    active = draft.active_turn
    other = change.turn_id is not None and change.turn_id != draft.queue.active_turn_id
    if other:
        active = None
    queued = () if change.keep_queue or other else draft.queue.ordered_turn_ids
    cancelled: list[JsonValue] = list(queued)
    if queued:
        end_queued_turns(draft, TurnStatus.CANCELLED, "stopped")
    intent: dict[str, JsonValue] = {
        "kind": "stop",
        "turn_id": active.turn_id if active else None,
        "cancelled_queued": cancelled,
        "reason": change.reason,
    }
    settled: dict[str, JsonValue] = {"status": "nothing_running", "cancelled_queued": cancelled}
    return _file(draft, operation_id, "session.stop", change, intent, None if active else settled)


def cancel_turn(draft: Draft, change: CancelTurn) -> OperationDone:
    """Take a queued turn out of the queue; one that has ended already is a success."""
    operation_id = operation_id_of(change)
    known = _known_operation(draft, operation_id, change.request_digest)
    if known is not None:
        return operation_answer(known, repeated=True)
    turn = draft.turns.get(change.turn_id)
    if turn is None:
        raise ResourceGone(f"turn {change.turn_id} isn't in session {draft.base.session_id}")
    if turn.status != TurnStatus.QUEUED and turn.status not in TERMINAL_TURN:
        raise ActiveTurnExists(
            f"turn {change.turn_id} has started; `muster session stop` ends it",
            turn_id=change.turn_id,
        )
    if turn.status == TurnStatus.QUEUED:
        turn = end_turn(draft, turn, TurnStatus.CANCELLED, reason="cancelled")
    response: dict[str, JsonValue] = {"turn_id": turn.turn_id, "status": turn.status.value}
    intent: dict[str, JsonValue] = {"kind": "cancel", "turn_id": turn.turn_id}
    return _file(draft, operation_id, "turn.cancel", change, intent, response)


def file_report(draft: Draft, change: FileReport) -> OperationDone:
    """Add a report; the operation id makes it once."""
    known = _known_operation(draft, change.operation_id, change.request_digest)
    if known is not None:
        return operation_answer(known, repeated=True)
    require_open(draft)
    if change.operation_id.startswith(TURN_END_PREFIX):
        raise InvalidInput(
            f"operation id {change.operation_id} is kept for the report that a turn leaves "
            "when it ends; choose another"
        )
    if change.turn_id is not None and change.turn_id not in draft.turns:
        raise ResourceGone(f"turn {change.turn_id} isn't in session {draft.base.session_id}")
    identifier = report_id(change.operation_id)
    draft.reports[identifier] = Report(
        report_id=identifier,
        operation_id=change.operation_id,
        session_id=draft.base.session_id,
        turn_id=change.turn_id or "",
        status=change.status,
        summary=change.summary,
        blocker=change.blocker,
        pr_url=change.pr_url,
        evidence_paths=tuple(dict.fromkeys(change.evidence_paths)),
        created_at=draft.at,
    )
    draft.emit("report.filed", "report", identifier, status=change.status)
    intent: dict[str, JsonValue] = {"kind": "report", "turn_id": change.turn_id}
    response: dict[str, JsonValue] = {"report_id": identifier}
    return _file(draft, change.operation_id, "report.file", change, intent, response)
