"""How the demo shows what it does: live on a terminal, in lines without one."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from rich.console import Console
from rich.markup import escape
from rich.text import Text


@dataclass(frozen=True, slots=True)
class Claim:
    """Something that has to be true, and what was found."""

    text: str
    holds: bool
    found: str


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of the timeline."""

    at: float
    """Seconds since the demo began."""
    text: str


@dataclass(slots=True)
class Story:
    """What happened, and what was claimed."""

    console: Console
    began: float = field(default_factory=time.monotonic)
    timeline: list[Entry] = field(default_factory=list)
    claims: list[Claim] = field(default_factory=list)

    @contextmanager
    def step(self, text: str) -> Iterator[None]:
        """One step of the demo; on a terminal it turns for as long as it takes."""
        self._add(f"[bold]{escape(text)}[/]")
        if not self.console.is_terminal:
            yield
            return
        with self.console.status(escape(text)):
            yield

    def say(self, text: str) -> None:
        """Something that happened within a step."""
        self._add(escape(text))

    def claim(self, text: str, holds: bool, found: object) -> None:
        """State what has to be true and what was found."""
        self.claims.append(Claim(text, holds, str(found)))
        mark = "[green]✓[/]" if holds else "[bold red]✗[/]"
        self._add(f"{mark} {escape(text)} [dim]({escape(str(found))})[/]")

    @property
    def holds(self) -> bool:
        """Whether everything was as claimed."""
        return bool(self.claims) and all(each.holds for each in self.claims)

    def _add(self, text: str) -> None:
        entry = Entry(time.monotonic() - self.began, Text.from_markup(text).plain)
        self.timeline.append(entry)
        self.console.print(f"[dim]{entry.at:6.1f} s[/]  {text}", highlight=False, soft_wrap=True)
