"""`muster dev`: the development stack, until somebody ends it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated

import typer

from muster.client.local_stack import DEFAULT_DATA_DIR, StackInfo
from muster.client.output import Output
from muster.client.verb import DebugOption, JsonOption, reporting
from muster.devstack.model import (
    MONGO_PORT,
    TEMPORAL_PORT,
    TEMPORAL_UI_PORT,
    StackEvent,
    StackOptions,
    TemporalChoice,
)
from muster.devstack.report import print_event, print_stack
from muster.devstack.run import run_stack

DataOption = Annotated[Path, typer.Option("--data", help="The folder that everything is kept in.")]
TemporalOption = Annotated[
    TemporalChoice | None,
    typer.Option("--temporal", help="Which Temporal server.", show_default="MUSTER_TEMPORAL"),
]


def register(app: typer.Typer) -> None:
    """Add the command to `muster`."""
    app.command("dev")(dev)


def dev(
    data: DataOption = DEFAULT_DATA_DIR,
    temporal: TemporalOption = None,
    worker: Annotated[
        bool, typer.Option("--worker/--no-worker", help="Start a worker beside the servers.")
    ] = True,
    ui: Annotated[bool, typer.Option("--ui/--no-ui", help="Serve Temporal's UI.")] = True,
    keep_agents: Annotated[
        bool,
        typer.Option("--keep-agents", help="Leave agents running; the next start finds them."),
    ] = False,
    temporal_port: Annotated[int, typer.Option("--temporal-port", min=0, max=65535)] = (
        TEMPORAL_PORT
    ),
    ui_port: Annotated[int, typer.Option("--ui-port", min=0, max=65535)] = TEMPORAL_UI_PORT,
    mongo_port: Annotated[int, typer.Option("--mongo-port", min=0, max=65535)] = MONGO_PORT,
    as_json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Run Temporal, MongoDB and a worker here; a port that is taken is replaced by a free one."""
    options = StackOptions(
        data_dir=data,
        temporal=temporal,
        worker=worker,
        ui=ui,
        keep_agents=keep_agents,
        temporal_port=temporal_port,
        ui_port=ui_port,
        mongo_port=mongo_port,
    )
    out = Output(as_json=as_json)

    def on_event(event: StackEvent) -> None:
        print_event(out.aside, event)

    def on_ready(info: StackInfo) -> None:
        print_stack(out.console, info, as_json=as_json)
        out.note("Commands of `muster` find it from this folder. Ctrl-C stops all of it.")

    with reporting(out, debug=debug):
        status = asyncio.run(run_stack(options, on_event, on_ready))
    raise typer.Exit(status)
