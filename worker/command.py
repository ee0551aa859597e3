"""`muster worker`: the same process as `python -m muster.worker`."""

from __future__ import annotations

import typer

from muster.worker.__main__ import main


def register(app: typer.Typer) -> None:
    """Add the command to `muster`."""
    app.command("worker")(worker)


def worker() -> None:
    """Serve the queues of this root and host until SIGTERM; settings come from MUSTER_*."""
    raise typer.Exit(main())
