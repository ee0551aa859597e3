"""The verbs of the `muster` command, by what they are about."""

from __future__ import annotations

import typer

from muster.client.commands import care, create, ending, look, prompts


def session_app() -> typer.Typer:
    """`muster session …`."""
    app = typer.Typer(no_args_is_help=True, help="Create sessions, talk to them, close them.")
    for part in (create, look, prompts, ending, care):
        part.register(app)
    return app
