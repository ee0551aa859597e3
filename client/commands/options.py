"""Arguments and options that several verbs share."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from muster.domain.errors import InvalidInput

SessionArgument = Annotated[
    str, typer.Argument(metavar="SESSION", help="The session's id, or an unambiguous beginning.")
]
KeyOption = Annotated[
    str | None,
    typer.Option(
        "--key",
        help="Your key for this request: repeated with it, the request gets its first answer.",
        show_default=False,
    ),
]
TimeoutOption = Annotated[
    str | None,
    typer.Option(
        "--timeout",
        metavar="DURATION",
        help="How long to wait: 45s, 10m, 2h.",
        show_default=False,
    ),
]
ForceOption = Annotated[
    bool, typer.Option("--force", help="End a running turn and the queue instead of refusing.")
]


def read_text(path: Path) -> str:
    """The text of a file, or of standard input for `-`.

    Raises:
        InvalidInput: It can't be read or isn't UTF-8.
    """
    try:
        if str(path) == "-":
            return sys.stdin.buffer.read().decode()
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it isn't UTF-8 text"
        raise InvalidInput(f"{path} can't be read: {reason}") from error


def chosen_text(given: str | None, path: Path | None, *, what: str) -> str | None:
    """A text given as an argument (`-` reads standard input) or by `--file`; None for neither.

    Raises:
        InvalidInput: Both are given, or the file can't be read.
    """
    if given is not None and path is not None:
        raise InvalidInput(f"{what} is given twice: as an argument and by --file")
    if given == "-":
        return read_text(Path("-"))
    return read_text(path) if path is not None else given
