"""The base of every message and document model, and the types they share."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, StringConstraints


class Contract(BaseModel):
    """Frozen, without unknown fields; new fields only with defaults, none renamed or retyped."""

    model_config = ConfigDict(frozen=True, extra="forbid")


NonEmpty = Annotated[str, StringConstraints(min_length=1)]


def _check_time(value: str) -> str:
    if datetime.fromisoformat(value).tzinfo is None:
        raise ValueError("a time needs its offset from UTC")
    return value


def is_time(value: str) -> bool:
    """True if `value` is a timestamp."""
    try:
        _check_time(value)
    except ValueError:
        return False
    return True


Timestamp = Annotated[str, AfterValidator(_check_time)]
"""ISO 8601 with an offset. For people and for retention; order is by revision and sequence."""


def timestamp(moment: datetime) -> str:
    """`moment` as documents write it: UTC, milliseconds, `Z`."""
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def parse_time(value: str) -> datetime:
    """The moment that a timestamp names."""
    return datetime.fromisoformat(value)
