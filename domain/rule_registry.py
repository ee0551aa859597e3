"""The register of rules over a session document."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from muster.domain.session_document import SessionDocument


@dataclass(frozen=True)
class Violation:
    """A broken rule: its name, the place in the document, and what is wrong there."""

    rule: str
    where: str
    message: str


Check = Callable[[SessionDocument], Iterable[tuple[str, str]]]
RULES: dict[str, Check] = {}
"""Every rule by name; a check yields (where, message) for each place that breaks it."""


def rule(name: str) -> Callable[[Check], Check]:
    """Register a check under a rule's name."""

    def register(check: Check) -> Check:
        RULES[name] = check
        return check

    return register


def repeated(values: Iterable[str]) -> list[str]:
    """The values that occur more than once, sorted."""
    every = list(values)
    if len(set(every)) == len(every):
        return []  # every commit comes here many times, and a Counter is slow
    return sorted(value for value, count in Counter(every).items() if count > 1)
