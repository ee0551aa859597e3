"""A close's admission, what it settles, and the session's last event."""

from __future__ import annotations

from muster.domain.changes import AdmitClose, Applied, CloseAdmitted, EndClose
from muster.domain.contract import parse_time
from muster.domain.draft import Draft
from muster.domain.errors import ActiveTurnExists, EndpointStale, SessionNotIdle
from muster.domain.session_document import Closing, SessionState
from muster.domain.transitions.admission import require_same_request
from muster.domain.transitions.turns import end_queued_turns, end_turn
from muster.domain.turn_model import TurnStatus


def admit_close(draft: Draft, change: AdmitClose) -> CloseAdmitted:
    """Put the close on record; queued turns end with a report, questions are cancelled.

    Raises:
        IdempotencyConflict: A close is admitted under another key or with another request.
        EndpointStale: The session lives under another incarnation.
        ActiveTurnExists: A turn runs and `force` isn't set.
        SessionNotIdle: There was activity after `idle_before`.
    """
    if change.incarnation != draft.incarnation:
        raise EndpointStale(
            f"session {draft.base.session_id} lives as {draft.incarnation}, "
            f"not as {change.incarnation}; nothing was closed",
            incarnation=draft.incarnation,
        )
    if draft.closing is not None:
        asked = (change.key_digest, change.request_digest)
        stored = (draft.closing.key_digest, draft.closing.request_digest)
        require_same_request("close", ":".join(stored), ":".join(asked), [])
        return _admitted(draft, draft.closing)
    settled = _settle(draft, change)
    closing = Closing(
        deletion_id=change.deletion_id,
        key_digest=change.key_digest,
        request_digest=change.request_digest,
        admitted_at=draft.at,
        settled_turn_ids=tuple(settled),
    )
    draft.closing = closing
    draft.state = SessionState.COMPLETED
    draft.emit("session.closing", "session", draft.base.session_id, forced=change.force)
    return _admitted(draft, closing)


def end_close(draft: Draft, change: EndClose) -> Applied:
    """Owe `session.closed`, the last event of the incarnation, once.

    Raises:
        EndpointStale: This deletion isn't the one that was admitted.
    """
    closing = draft.closing
    if closing is None or closing.deletion_id != change.deletion_id:
        raise EndpointStale(
            f"session {draft.base.session_id} isn't being closed by {change.deletion_id}"
        )
    if closing.ended_at is None:
        draft.closing = closing.model_copy(update={"ended_at": draft.at})
        draft.emit("session.closed", "deletion", closing.deletion_id)
    return Applied()


def _settle(draft: Draft, change: AdmitClose) -> list[str]:
    active = draft.active_turn
    if active is not None and not change.force:
        raise ActiveTurnExists(
            f"turn {active.turn_id} of session {draft.base.session_id} is {active.status.value}; "
            "stop it first, or close with force",
            turn_id=active.turn_id,
        )
    if change.idle_before is not None:
        _require_idle(draft, change.idle_before)
    settled = end_queued_turns(draft, TurnStatus.CANCELLED, "session_closed")
    if active is not None:
        end_turn(draft, draft.turns[active.turn_id], TurnStatus.CANCELLED, reason="forced_close")
        settled.append(active.turn_id)
    return settled


def _require_idle(draft: Draft, idle_before: str) -> None:
    activity = draft.recovery.prompt_watermark_at or draft.base.canonical.session.created_at
    if parse_time(activity) > parse_time(idle_before):
        raise SessionNotIdle(
            f"session {draft.base.session_id} was active at {activity}, after {idle_before}",
            activity_at=activity,
        )


def _admitted(draft: Draft, closing: Closing) -> CloseAdmitted:
    return CloseAdmitted(
        deletion_id=closing.deletion_id,
        turn_ids=tuple(sorted(draft.turns)),
        report_ids=tuple(sorted(draft.reports)),
        settled_turn_ids=closing.settled_turn_ids,
    )
