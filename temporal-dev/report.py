"""How a stack is shown: lines of progress, one table, or one JSON object."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table

from muster.client.local_stack import StackInfo
from muster.devstack.model import (
    EventKind,
    StackEvent,
)

_STYLES = {
    EventKind.READY: "green",
    EventKind.NOTICE: "yellow",
    EventKind.RESTART: "yellow",
    EventKind.FAILED: "red",
}


def print_event(console: Console, event: StackEvent) -> None:
    """One line for one event."""
    console.print(
        f"{event.component:>9}  {event.message}",
        style=_STYLES.get(event.kind),
        highlight=False,
        markup=False,
        soft_wrap=True,
    )


def stack_table(info: StackInfo) -> Table:
    """Addresses, links and folders, and below them what was found where."""
    table = Table(title="Muster development stack", title_justify="left", show_header=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for label, value in _facts(info.redacted()):
        table.add_row(label, value)
    table.add_section()
    for each in info.attempts:
        mark = "[green]✓[/green] " if each.chosen else "  "
        table.add_row(each.component, f"{mark}{each.where}: {each.outcome}")
    return table


def print_stack(console: Console, info: StackInfo, *, as_json: bool = False) -> None:
    """The table, or with `as_json` one JSON object on one line."""
    if as_json:
        console.out(info.redacted().model_dump_json(), highlight=False)
    else:
        console.print(stack_table(info))


def _facts(info: StackInfo) -> list[tuple[str, str]]:
    facts = []
    if info.temporal is not None:
        temporal = info.temporal
        facts.append(("Temporal", f"{temporal.address}, namespace {temporal.namespace}"))
        facts.append(("Temporal UI", temporal.ui_url or "none"))
        if temporal.missing:
            facts.append(("missing", ", ".join(temporal.missing)))
    if info.mongo is not None:
        facts.append(("MongoDB", info.mongo.uri))
    pids = {each.name: each.pid for each in info.processes}
    facts.append(("worker", f"runs as process {pids['worker']}" if "worker" in pids else "none"))
    facts.append(("data", info.data_dir))
    facts.append(("logs", f"{info.data_dir}/logs"))
    facts.append(("supervisor", f"process {info.pid}"))
    return facts
