"""Coded errors on their way through Temporal."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import wraps
from typing import ParamSpec, TypeVar

from temporalio.exceptions import ApplicationError

from muster.domain.errors import (
    MongoUnavailable,
    MusterError,
    RuntimeUnavailable,
    StorageUnavailable,
    TemporalUnavailable,
)

P = ParamSpec("P")
R = TypeVar("R")

RETRIED = (StorageUnavailable, MongoUnavailable, RuntimeUnavailable, TemporalUnavailable)
"""Conditions that pass; every other code is final for the attempt's input."""


def coded(function: Callable[P, Awaitable[R]]) -> Callable[P, Awaitable[R]]:
    """Let a `MusterError` travel as `ApplicationError(type=code)`; the rest is retried as it is."""

    @wraps(function)
    async def wrapper(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return await function(*args, **kwargs)
        except MusterError as error:
            raise application_error(error) from error

    return wrapper


def application_error(error: MusterError) -> ApplicationError:
    """`error` as Temporal carries it."""
    return ApplicationError(
        error.message,
        error.details,
        type=error.code,
        non_retryable=not isinstance(error, RETRIED),
    )
