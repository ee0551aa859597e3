"""Coded failures inside workflows."""

from __future__ import annotations

from temporalio.exceptions import ActivityError, ApplicationError

from muster.domain.errors import MusterError

ACTIVITY_FAILURES = (ActivityError, ApplicationError)
"""How an activity's error arrives: a regular one's wrapped, a local one's as it was raised."""


def refusal_of(error: ActivityError | ApplicationError) -> ApplicationError | None:
    """The coded error that an activity ended with, or None if it ended otherwise."""
    cause = error.cause if isinstance(error, ActivityError) else error
    if isinstance(cause, ApplicationError) and cause.type is not None:
        return ApplicationError(cause.message, *cause.details, type=cause.type, non_retryable=True)
    return None


def as_failure(error: MusterError) -> ApplicationError:
    """A rule's refusal as the failure of an update or a workflow."""
    return ApplicationError(error.message, error.details, type=error.code, non_retryable=True)
