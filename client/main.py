"""The `muster` command: its verbs, its exit status and its way out."""

from __future__ import annotations

import asyncio
import os
import sys
from importlib.metadata import PackageNotFoundError, entry_points, version
from typing import Annotated, Any

import typer
from typer.exceptions import TyperException

from muster.client.commands import session_app
from muster.client.commands.care import reconcile
from muster.client.commands.doctor import doctor
from muster.client.commands.events import events_app
from muster.client.commands.setup import setup
from muster.client.output import Output
from muster.client.verb import verb
from muster.domain.errors import InvalidInput

PLUGINS = "muster.commands"
"""The entry point group of commands that stand in packages which the client doesn't know."""

OWN = frozenset({"session", "events", "setup", "doctor"})
INTERRUPTED = 130
BROKEN_PIPE = 141
TERMINATED = 143

HELP = """Keeps coding-agent sessions alive and honest on Temporal.

Exit status: 0 done, 1 failed, 2 usage, 3 timed out, 4 not found, 5 refused or conflict,
6 uncertain.
"""


def _show_version(wanted: bool) -> None:
    if not wanted:
        return
    try:
        typer.echo(f"muster {version('muster')}")
    except PackageNotFoundError:
        typer.echo("muster, from a source tree")
    raise typer.Exit


def build(first: str = "") -> typer.Typer:
    """The command with everything that is installed.

    Args:
        first: The first word of the command line: other packages' commands are loaded only if it
            isn't one of the client's own.
    """
    app = typer.Typer(help=HELP, no_args_is_help=True, rich_markup_mode=None)

    @app.callback()
    def _root(
        _version: Annotated[
            bool,
            typer.Option("--version", callback=_show_version, is_eager=True, help="Show it."),
        ] = False,
    ) -> None:
        pass

    app.add_typer(session_app(), name="session")
    app.add_typer(events_app(), name="events")
    verb(app, "setup")(setup)
    verb(app, "doctor")(doctor)
    verb(app, "reconcile")(reconcile)
    if first not in OWN:
        for found in sorted(entry_points(group=PLUGINS), key=lambda each: each.name):
            found.load()(app)
    return app


def run(arguments: list[str]) -> int:
    """Carry out a command line and return its exit status."""
    try:
        status: Any = build(next(iter(arguments), ""))(
            args=arguments, prog_name="muster", standalone_mode=False
        )
    except TyperException as error:
        out = Output(as_json="--json" in arguments)
        context = getattr(error, "ctx", None)
        hint = context.command_path if context else "muster"
        out.error(InvalidInput(f"{error.format_message()} (see `{hint} --help`)"))
        return error.exit_code
    except (KeyboardInterrupt, typer.Abort):
        return INTERRUPTED
    except asyncio.CancelledError:
        return TERMINATED
    except BrokenPipeError:
        return BROKEN_PIPE
    return status if isinstance(status, int) else 0


def main() -> None:
    """The console script."""
    status = run(sys.argv[1:])
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (BrokenPipeError, ValueError):
            status = status or BROKEN_PIPE
    # The SDK's threads can abort the interpreter while it ends; all is said and closed by now.
    os._exit(status)


if __name__ == "__main__":
    main()
