"""What Temporal and the workflows raise, turned into the coded errors of the domain.

Activities and workflows send an error's code as `ApplicationError.type` and its details as the
first detail; everything else is sorted by class and status, never by its text.
"""

from __future__ import annotations

from typing import Final

from pydantic import ValidationError
from temporalio.api.errordetails.v1 import NamespaceNotFoundFailure, WorkflowNotReadyFailure
from temporalio.client import (
    RPCTimeoutOrCancelledError,
    WorkflowFailureError,
    WorkflowQueryFailedError,
    WorkflowUpdateFailedError,
)
from temporalio.exceptions import ApplicationError
from temporalio.service import RPCError, RPCStatusCode

from muster.domain.errors import (
    ERRORS_BY_CODE,
    InvalidInput,
    MusterError,
    ResourceGone,
    TemporalUnavailable,
    TimedOut,
    WorkerUnavailable,
    error_from_code,
)

RUN_ENDED: Final = "AcceptedUpdateCompletedWorkflow"
"""The server's word for an update whose run ended before it was answered."""

_REFUSED: Final = frozenset({RPCStatusCode.PERMISSION_DENIED, RPCStatusCode.UNAUTHENTICATED})
_AWAY: Final = frozenset(
    {
        RPCStatusCode.UNAVAILABLE,
        RPCStatusCode.ABORTED,
        RPCStatusCode.RESOURCE_EXHAUSTED,
        RPCStatusCode.INTERNAL,
        RPCStatusCode.UNKNOWN,
    }
)


def coded(error: BaseException) -> MusterError:
    """The coded error for whatever a call to Temporal raised."""
    if isinstance(error, MusterError):
        return error
    if isinstance(error, (WorkflowUpdateFailedError, WorkflowFailureError)):
        return _of_workflow(error)
    if isinstance(error, WorkflowQueryFailedError):
        return MusterError(f"the session's workflow couldn't be asked: {error}")
    if isinstance(error, (RPCTimeoutOrCancelledError, TimeoutError)):
        return TimedOut("no answer within the time limit")
    if isinstance(error, RPCError):
        return _of_rpc(error)
    if isinstance(error, ValidationError):
        return invalid(error)
    return MusterError(f"{type(error).__name__}: {error}")


def application_error(error: BaseException) -> ApplicationError | None:
    """The error that a workflow or activity raised itself, below what wraps it."""
    seen: BaseException | None = error
    found = None
    while seen is not None:
        if isinstance(seen, ApplicationError):
            found = seen
            if seen.type in ERRORS_BY_CODE:
                return seen
        seen = seen.__cause__
    return found


def invalid(error: ValidationError) -> InvalidInput:
    """What is wrong with a request, field by field."""
    found = [
        (".".join(str(part) for part in each["loc"]), each["msg"])
        for each in error.errors(include_url=False, include_input=False)
    ]
    text = "; ".join(f"{where}: {what}" if where else what for where, what in found)
    return InvalidInput(f"the request isn't valid: {text}", fields=[where for where, _ in found])


def run_ended(error: BaseException) -> bool:
    """Whether an update met the end of a run: to be sent again under the same key."""
    if isinstance(error, WorkflowUpdateFailedError):
        found = application_error(error)
        return found is not None and found.type == RUN_ENDED
    missing = isinstance(error, RPCError) and error.status is RPCStatusCode.NOT_FOUND
    return missing and not namespace_missing(error)


def server_away(error: BaseException) -> bool:
    """Whether the server was away for a moment: to be tried again under the same key.

    Also when it was too busy to take an update within its own deadline, which isn't the caller's.
    """
    if isinstance(error, RPCTimeoutOrCancelledError):
        return True
    return isinstance(error, RPCError) and error.status in _AWAY


def not_ready(error: BaseException) -> bool:
    """Whether a worker failed to carry the workflow on, more than once in a row.

    It passes when that was a kill or a stall, and stays when the worker's code can't go on.
    """
    wanted = WorkflowNotReadyFailure.DESCRIPTOR
    return isinstance(error, RPCError) and any(
        each.Is(wanted) for each in error.grpc_status.details
    )


def namespace_missing(error: BaseException) -> bool:
    """Whether NOT_FOUND speaks of Temporal's namespace and not of a workflow."""
    wanted = NamespaceNotFoundFailure.DESCRIPTOR
    return isinstance(error, RPCError) and any(
        each.Is(wanted) for each in error.grpc_status.details
    )


def _of_workflow(error: WorkflowUpdateFailedError | WorkflowFailureError) -> MusterError:
    found = application_error(error)
    if found is None:
        return MusterError(f"the workflow failed: {error.cause}")
    details = found.details[0] if found.details else None
    return error_from_code(
        found.type or "internal", found.message, details if isinstance(details, dict) else None
    )


def _of_rpc(error: RPCError) -> MusterError:
    if error.status in _REFUSED:
        return TemporalUnavailable(
            f"the Temporal server refused this client: {error.message}. Check the API key, the "
            "certificates and the namespace of the TEMPORAL_* variables or temporal.toml"
        )
    if error.status is RPCStatusCode.NOT_FOUND:
        if namespace_missing(error):
            return TemporalUnavailable(
                f"{error.message} Create it, or name another in TEMPORAL_NAMESPACE"
            )
        return ResourceGone(error.message)
    if error.status is RPCStatusCode.DEADLINE_EXCEEDED:
        return TimedOut("no answer within the time limit")
    if error.status is RPCStatusCode.INVALID_ARGUMENT:
        return InvalidInput(f"the Temporal server refused the request: {error.message}")
    message = error.message.rstrip(".")
    if error.status is RPCStatusCode.FAILED_PRECONDITION:
        return WorkerUnavailable(
            f"a worker is there and can't carry the workflow on: {message}. Its log says why"
        )
    return TemporalUnavailable(
        f"the Temporal server doesn't answer: {message}. `muster doctor` looks at it"
    )
