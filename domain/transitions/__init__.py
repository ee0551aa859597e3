"""The only way a session document changes: pure functions from (document, change).

`apply` answers with the next document and the change's outcome, or raises the coded error that
refuses it. Unchanged in, unchanged out: the same object, the same revision.
"""

from __future__ import annotations

from muster.domain.changes import (
    AcceptPrompt,
    AcknowledgeEvents,
    AdmitClose,
    Applied,
    CancelTurn,
    Change,
    ClaimAnswer,
    EndClose,
    FailTurn,
    FileReport,
    Outcome,
    RecordDelivery,
    RecordEvents,
    RequestStop,
    SettleAnswer,
)
from muster.domain.draft import Draft
from muster.domain.session_document import SessionDocument
from muster.domain.transitions.closing import admit_close, end_close
from muster.domain.transitions.events import acknowledge_events, fail_turn, record_events
from muster.domain.transitions.operations import cancel_turn, file_report, request_stop
from muster.domain.transitions.prompts import accept_prompt, record_delivery
from muster.domain.transitions.questions import claim_answer, settle_answer

_HEARD = RecordDelivery | RecordEvents | FailTurn | SettleAnswer
"""What the runtime has to say, or is said of it."""


def _dispatch(draft: Draft, change: Change) -> Outcome:
    if isinstance(change, _HEARD) and draft.closing is not None and draft.closing.ended_at:
        return Applied()  # nothing comes after a session's last event
    match change:
        case AcceptPrompt():
            return accept_prompt(draft, change)
        case RecordDelivery():
            return record_delivery(draft, change)
        case RecordEvents():
            return record_events(draft, change)
        case FailTurn():
            return fail_turn(draft, change)
        case ClaimAnswer():
            return claim_answer(draft, change)
        case SettleAnswer():
            return settle_answer(draft, change)
        case RequestStop():
            return request_stop(draft, change)
        case CancelTurn():
            return cancel_turn(draft, change)
        case FileReport():
            return file_report(draft, change)
        case AcknowledgeEvents():
            return acknowledge_events(draft, change)
        case AdmitClose():
            return admit_close(draft, change)
        case EndClose():
            return end_close(draft, change)


def apply(document: SessionDocument, change: Change, at: str) -> tuple[SessionDocument, Outcome]:
    """The document after `change`, and what the change answers.

    Args:
        document: The document as it is on disk; it isn't changed.
        change: What is asked for.
        at: The time that goes into the document, as a timestamp.

    Raises:
        MusterError: The coded refusal; nothing changes.
    """
    draft = Draft(document, at)
    outcome = _dispatch(draft, change)
    return draft.finish(), outcome
