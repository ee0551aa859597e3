"""Lengths of time as people type them: `30`, `45s`, `10m`, `2h`, `1d`, `1h30m`."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from muster.domain.contract import parse_time
from muster.domain.errors import InvalidInput

_UNITS = {"d": "days", "h": "hours", "m": "minutes", "s": "seconds"}
_WHOLE = re.compile(r"(?:\d+(?:\.\d+)?[dhms])+|\d+(?:\.\d+)?")
_PART = re.compile(r"(\d+(?:\.\d+)?)([dhms]?)")


def parse_duration(text: str) -> timedelta:
    """The duration that `text` means; a bare number counts seconds.

    Raises:
        InvalidInput: It isn't one, or isn't longer than nothing.
    """
    if _WHOLE.fullmatch(text):
        found = timedelta()
        try:
            for amount, unit in _PART.findall(text):
                found += timedelta(**{_UNITS[unit or "s"]: float(amount)})
        except OverflowError:
            found = timedelta()
        if found > timedelta():
            return found
    raise InvalidInput(f"{text!r} isn't a duration; write it like 45s, 10m, 2h or 1h30m")


def seconds(text: str | None) -> float | None:
    """The seconds of a duration, or None for none."""
    return None if text is None else parse_duration(text).total_seconds()


def age(at: str, now: datetime | None = None) -> str:
    """How long ago a timestamp was, in its largest unit."""
    passed = max(0, int(((now or datetime.now(UTC)) - parse_time(at)).total_seconds()))
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "m")):
        if passed >= size:
            return f"{passed // size}{unit}"
    return f"{passed}s"
