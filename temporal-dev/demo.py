"""`muster demo`: one durable session from start to end on a real repository, with a crash.

What it claims it also checks, by what is on disk and in the histories; it fails if anything was
not as claimed.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import socket
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from muster.client.local_stack import StackInfo
from muster.client.output import Output
from muster.client.verb import DebugOption, JsonOption, reporting
from muster.devstack.command import TemporalOption
from muster.devstack.demo_evidence import Evidence
from muster.devstack.demo_progress import Story
from muster.devstack.demo_repository import Repository
from muster.devstack.demo_scenario import Scenario
from muster.devstack.model import EventKind, StackEvent, StackOptions, TemporalChoice
from muster.devstack.stack import Stack

FAILED = 1


def register(app: typer.Typer) -> None:
    """Add the command to `muster`."""
    app.command("demo")(demo)


def demo(
    data: Annotated[
        Path | None,
        typer.Option("--data", help="Keep everything here.", show_default="a temporary folder"),
    ] = None,
    temporal: TemporalOption = None,
    stay: Annotated[
        bool, typer.Option("--stay", help="Leave the stack up afterwards, until Ctrl-C.")
    ] = False,
    kill_after: Annotated[
        list[float] | None,
        typer.Option(
            "--kill-after",
            metavar="SECONDS",
            help="Kill the worker also so long after the session's creation began; repeatable.",
        ),
    ] = None,
    as_json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Create a session, let it work, kill the worker, repeat requests, close; check all of it."""
    out = Output(as_json=as_json)
    folder = data or Path(tempfile.mkdtemp(prefix="muster-demo-"))
    story = Story(out.aside if as_json else out.console)
    try:
        with reporting(out, debug=debug):
            asyncio.run(_run(story, folder, temporal, kill_after or [], out, stay=stay))
    finally:
        if data is None and story.holds:
            shutil.rmtree(folder, ignore_errors=True)
        else:
            out.note(f"kept in {folder}")
    raise typer.Exit(0 if story.holds else FAILED)


async def _run(
    story: Story,
    folder: Path,
    temporal: TemporalChoice | None,
    kill_after: list[float],
    out: Output,
    *,
    stay: bool,
) -> None:
    # Queues of its own: a server that others use too may have their workers.
    name = f"demo-{uuid.uuid4().hex[:6]}"
    host = f"{socket.gethostname()}-{name}"
    options = StackOptions(
        data_dir=folder,
        temporal=temporal,
        environ={**os.environ, "MUSTER_ROOT": name, "MUSTER_RUNTIME_HOST": host},
    )
    with _ended_by_sigterm():
        with story.step("start Temporal, MongoDB and a worker"):
            stack = Stack(options, lambda event: _tell(story, event))
            await stack.start()
        try:
            info = stack.describe()
            story.say(f"Temporal UI: {_ui(info)}")
            with story.step("make a git repository"):
                repository = await asyncio.to_thread(
                    Repository.make, folder / "repositories" / name
                )
            async with Scenario.connected(story, stack, repository, name, host) as scenario:
                found = await scenario.play(kill_after)
            _conclude(story, out, info, found)
            if stay and not out.as_json:
                out.console.print(f"The stack stays up; UI: {_ui(info)}. Ctrl-C ends it.")
                await stack.gave_up()
        finally:
            await stack.stop(end_all_agents=True)


def _tell(story: Story, event: StackEvent) -> None:
    if event.kind in (EventKind.READY, EventKind.NOTICE, EventKind.RESTART, EventKind.FAILED):
        story.say(f"{event.component}: {event.message}")


def _ui(info: StackInfo) -> str:
    if info.temporal is None or info.temporal.ui_url is None:
        return "none; this Temporal server doesn't bring one"
    return f"{info.temporal.ui_url}/namespaces/{info.temporal.namespace}/workflows"


@contextmanager
def _ended_by_sigterm() -> Iterator[None]:
    """Let SIGTERM end the demo as Ctrl-C does: in order."""
    running = asyncio.current_task()
    loop = asyncio.get_running_loop()
    if running is not None:
        loop.add_signal_handler(signal.SIGTERM, running.cancel)
    try:
        yield
    finally:
        loop.remove_signal_handler(signal.SIGTERM)


def _conclude(story: Story, out: Output, info: StackInfo, found: list[Evidence]) -> None:
    """Say what ran how often, whether all held, and where to look."""
    failed = [each for each in story.claims if not each.holds]
    if out.as_json:
        out.line(
            {
                "ok": story.holds,
                "claims": [asdict(each) for each in story.claims],
                "timeline": [asdict(each) for each in story.timeline],
                "workflows": [asdict(each) for each in found],
                "ui_url": info.temporal.ui_url if info.temporal else None,
            }
        )
        return
    out.console.print()
    out.console.print(_ran_table(found))
    out.console.print()
    kept = len(story.claims) - len(failed)
    out.console.print(f"[bold]{kept} of {len(story.claims)} claims held[/]", highlight=False)
    for each in failed:
        out.console.print(f"[bold red]not so:[/] {each.text} ({each.found})", highlight=False)
    out.console.print(f"Temporal UI: {_ui(info)}", highlight=False, soft_wrap=True)


def _ran_table(found: list[Evidence]) -> Table:
    table = Table(title="What ran how often", title_justify="left", box=None, header_style="dim")
    for name in ("WORKFLOW", "EVENTS", "ACTIVITY", "TIMES", "ATTEMPTS"):
        right = name in ("EVENTS", "TIMES", "ATTEMPTS")
        table.add_column(name, justify="right" if right else "left", overflow="fold")
    for each in found:
        for number, ran in enumerate(each.ran.values()):
            first = number == 0
            table.add_row(
                each.workflow_id if first else "",
                str(each.events) if first else "",
                f"{ran.activity}{' (local)' if ran.local else ''}",
                str(ran.times),
                str(ran.attempts),
            )
    return table
