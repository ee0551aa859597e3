"""What a verb prints: for people, for programs (`--json`), or ids alone (`-q`).

Results go to standard output and everything else to standard error, so that a pipe gets results
only.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping
from typing import Any

from pydantic import BaseModel
from rich.console import Console, RenderableType

from muster.domain.errors import MusterError

PIPE_WIDTH = 200
"""Columns when there is no terminal to ask: wide enough that no id is cut."""


class Output:
    """One verb's way of printing."""

    def __init__(self, *, as_json: bool = False, quiet: bool = False) -> None:
        self.as_json = as_json
        self.quiet = quiet
        self.console = _console(sys.stdout)
        self.aside = _console(sys.stderr)

    @property
    def plain(self) -> bool:
        """Whether people read it."""
        return not (self.as_json or self.quiet)

    def result(
        self, found: BaseModel | Mapping[str, Any], *, name: str, shown: RenderableType
    ) -> None:
        """One result: an object, an id, or what people see."""
        if self.as_json:
            self.line(as_object(found))
        elif self.quiet:
            self.text(name)
        else:
            self.console.print(shown, highlight=False)

    def rows(
        self,
        found: Iterable[BaseModel | Mapping[str, Any]],
        *,
        names: Iterable[str],
        shown: RenderableType,
    ) -> None:
        """Several results, one object or id on each line."""
        if self.as_json:
            for each in found:
                self.line(as_object(each))
        elif self.quiet:
            for name in names:
                self.text(name)
        else:
            self.console.print(shown, highlight=False)

    def note(self, text: str) -> None:
        """A remark beside the result, for people only."""
        if self.plain:
            self.aside.print(text, style="dim", highlight=False, markup=False, soft_wrap=True)

    def error(self, error: MusterError) -> None:
        """One line that says what is wrong; with `--json` an object on standard output."""
        if self.as_json:
            facts = {"code": error.code, "message": error.message, "details": error.details}
            self.line({"error": facts})
            return
        line = " ".join(f"error[{error.code}]: {error.message}".split())
        self.aside.print(line, style="red", highlight=False, markup=False, soft_wrap=True)

    def line(self, value: Mapping[str, Any]) -> None:
        """One object on one line."""
        self.text(json.dumps(value, ensure_ascii=False, default=str))

    def text(self, text: str) -> None:
        """A line as it is."""
        self.console.out(text, highlight=False)


def as_object(value: BaseModel | Mapping[str, Any]) -> Mapping[str, Any]:
    """A result as JSON sees it."""
    return value.model_dump(mode="json") if isinstance(value, BaseModel) else value


class _PipeConsole(Console):
    """A console that leaves it to its caller what becomes of a broken pipe."""

    def on_broken_pipe(self) -> None:
        """Called while the error is handled."""
        raise BrokenPipeError


def _console(stream: Any) -> Console:
    width = None if stream.isatty() else PIPE_WIDTH
    return _PipeConsole(file=stream, width=width)
