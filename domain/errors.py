"""One exception class for each error code.

The codes are wire format: they travel as `ApplicationError.type`, stand in receipts and decide
the command's exit status. Branch on the class or the code, never on the message. A message says
what was found, where, and what to do.
"""

from __future__ import annotations

from typing import ClassVar


class MusterError(Exception):
    """Base of every coded error; `code` is stable, `exit_status` is the command's.

    Args:
        message: What was found, where, and what to do about it.
        details: JSON-compatible facts for machines, for example the fields that differ.
    """

    code: ClassVar[str] = "internal"
    exit_status: ClassVar[int] = 1

    def __init__(self, message: str, **details: object) -> None:
        super().__init__(message)
        self.message = message
        self.details = details


class InvalidInput(MusterError):
    """The request itself is malformed; nothing was changed."""

    code = "invalid_input"
    exit_status = 2


class WorkingDirectoryUnusable(MusterError):
    """The session's working directory is missing, not a directory or not accessible."""

    code = "cwd_unusable"
    exit_status = 2


class LimitExceeded(MusterError):
    """A size or count limit would be passed; nothing was written."""

    code = "limit_exceeded"
    exit_status = 2


class TimedOut(MusterError):
    """The caller's own time limit passed before what it waited for."""

    code = "timed_out"
    exit_status = 3


class ResourceGone(MusterError):
    """There is no such session, question, turn or schedule, or it was closed."""

    code = "resource_gone"
    exit_status = 4


class AmbiguousPrefix(MusterError):
    """An identifier prefix fits more than one resource."""

    code = "ambiguous_prefix"
    exit_status = 2


class IdempotencyConflict(MusterError):
    """The key was used before for another request; `fields` names what differs."""

    code = "idempotency_conflict"
    exit_status = 5


class ActiveTurnExists(MusterError):
    """A turn is active or reserved; `turn.follow_up` would queue behind it."""

    code = "active_turn_exists"
    exit_status = 5


class QueueFull(MusterError):
    """The session's queue has no room; nothing was accepted."""

    code = "queue_full"
    exit_status = 5


class AlreadyAnswered(MusterError):
    """The question has an answer; the details say which won."""

    code = "already_answered"
    exit_status = 5


class QuestionCancelled(MusterError):
    """The question ended without an answer: its turn was aborted, ended or its session closed."""

    code = "question_cancelled"
    exit_status = 5


class SessionClosing(MusterError):
    """The session, or an earlier incarnation of it, is being closed."""

    code = "session_closing"
    exit_status = 5


class SessionNotIdle(MusterError):
    """The session was active more recently than the closer allows."""

    code = "session_not_idle"
    exit_status = 5


class EndpointStale(MusterError):
    """The session lives on under another endpoint incarnation."""

    code = "endpoint_stale"
    exit_status = 5


class RevisionConflict(MusterError):
    """The document moved on; `actual_revision` is in the details. Nothing was changed."""

    code = "revision_conflict"
    exit_status = 5


class ResyncNeeded(MusterError):
    """The events after this position were removed; `first_available` is where they begin now."""

    code = "resync_needed"
    exit_status = 5


class OwnershipConflict(MusterError):
    """Somebody else owns the gate, store or namespace."""

    code = "ownership_conflict"
    exit_status = 5


class OwnershipUnavailable(MusterError):
    """Who owns it can't be determined now."""

    code = "ownership_unavailable"
    exit_status = 6


class TerminalUncertain(MusterError):
    """Nobody can say whether the remote effect happened; `muster session resolve` decides."""

    code = "terminal_uncertain"
    exit_status = 6


class StateCorrupt(MusterError):
    """A stored document breaks a rule; it was set aside, not overwritten."""

    code = "state_corrupt"


class QueryUnavailable(MusterError):
    """The document has used its last reserve; what can be removed was removed."""

    code = "query_unavailable"


class UnsafePath(MusterError):
    """A path leaves its root or passes through a symbolic link."""

    code = "unsafe_path"
    exit_status = 2


class StorageUnavailable(MusterError):
    """The filesystem refused a write for now (full, quota, I/O error)."""

    code = "storage_unavailable"


class TemporalUnavailable(MusterError):
    """No Temporal server answers under the configured address."""

    code = "temporal_unavailable"


class MongoUnavailable(MusterError):
    """No MongoDB server answers under the configured URI."""

    code = "mongo_unavailable"


class WorkerUnavailable(MusterError):
    """The development stack's worker doesn't start or doesn't stay up; its log says why."""

    code = "worker_unavailable"


class RuntimeUnavailable(MusterError):
    """The agent runtime can't be reached or refused before it began; it may be tried again."""

    code = "runtime_unavailable"


class RuntimeGone(MusterError):
    """The agent runtime of this incarnation has ended and won't come back."""

    code = "runtime_gone"


class SignatureInvalid(MusterError):
    """A runtime event isn't signed by the session's key; it is kept as evidence only."""

    code = "signature_invalid"


def _all_classes(root: type[MusterError]) -> list[type[MusterError]]:
    return [root, *(found for child in root.__subclasses__() for found in _all_classes(child))]


ERRORS_BY_CODE: dict[str, type[MusterError]] = {
    each.code: each for each in _all_classes(MusterError)
}
"""Every error class under its code."""


def error_from_code(
    code: str, message: str, details: dict[str, object] | None = None
) -> MusterError:
    """The coded error for `code`, or a plain `MusterError` that names an unknown one."""
    known = ERRORS_BY_CODE.get(code)
    if known is None:
        return MusterError(f"{code}: {message}", **(details or {}))
    return known(message, **(details or {}))
