"""What every command on a session is checked for."""

from __future__ import annotations

from muster.domain.draft import Draft
from muster.domain.errors import IdempotencyConflict, RuntimeGone, SessionClosing


def require_open(draft: Draft) -> None:
    """Raises SessionClosing once a close is admitted."""
    if draft.closing is not None:
        raise SessionClosing(
            f"session {draft.base.session_id} is being closed since "
            f"{draft.closing.admitted_at}; it takes no more commands",
            deletion_id=draft.closing.deletion_id,
        )


def require_runtime(draft: Draft) -> None:
    """Raises RuntimeGone when the agent has ended for good."""
    reason = draft.recovery.runtime_gone_reason
    if reason is not None:
        raise RuntimeGone(
            f"the agent of session {draft.base.session_id} has ended ({reason}); "
            "close the session and create another"
        )


def require_same_request(kind: str, stored: str, asked: str, fields: list[str]) -> None:
    """Raises IdempotencyConflict when a key comes back with another request."""
    if stored != asked:
        named = ", ".join(fields) or "its content"
        raise IdempotencyConflict(
            f"this key was used before for another {kind}: {named} differs; "
            "send the first request again or use a new key",
            fields=fields,
        )
