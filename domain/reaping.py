"""Which sessions are closed because nobody has used them for as long as their creator allowed."""

from __future__ import annotations

from datetime import datetime, timedelta

from muster.domain.canonical import sha256_hex
from muster.domain.closing import CloseCommand
from muster.domain.contract import parse_time, timestamp
from muster.domain.control import MusterStatus, control_of
from muster.domain.session_document import SessionDocument


def idle_close(document: SessionDocument, now: datetime) -> CloseCommand | None:
    """The close of a session that has been idle for longer than its policy allows, if it has.

    A session that works is never idle; one with an open question only where its policy says so,
    and its turn is settled then. The close is admitted only if there still was no activity since.
    """
    limit = document.policy.idle_close_seconds
    control = control_of(document)
    if limit is None:
        return None
    asking = control.status == MusterStatus.QUESTION
    if asking and not document.policy.idle_close_with_question:
        return None
    if not asking and control.status not in (MusterStatus.WAITING, MusterStatus.FAILED):
        return None
    idle_before = now - timedelta(seconds=limit)
    if parse_time(control.activity_at) > idle_before:
        return None
    incarnation = control.endpoint.incarnation
    return CloseCommand(
        namespace_id=document.namespace_id,
        session_id=document.session_id,
        incarnation=incarnation,
        key_digest=sha256_hex(f"reap:{document.session_id}:{incarnation}"),
        force=asking,
        keep_history=True,
        idle_before=timestamp(idle_before),
    )
