"""`muster doctor`: looks at everything that can be wrong with a set-up and says what to do."""

from __future__ import annotations

import typer
from rich.markup import escape
from rich.table import Table

from muster.client.examination import Finding, examine
from muster.client.verb import Call

FAILED = 1


async def doctor(call: Call) -> None:
    """Look at servers, worker, indexes and folders; exit status 1 if something is wrong."""
    findings = await examine(call.settings)
    wrong = [each for each in findings if each.ok is False]
    call.out.rows(findings, names=[each.name for each in wrong], shown=_table(findings))
    if wrong:
        raise typer.Exit(FAILED)


def _table(findings: list[Finding]) -> Table:
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(no_wrap=True)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    marks = {True: "[green]ok[/]", False: "[red]wrong[/]", None: "[dim]-[/]"}
    for each in findings:
        text = escape(each.found)
        if each.todo:
            text += f"\n[yellow]{escape(each.todo)}[/]"
        table.add_row(marks[each.ok], each.name, text)
    return table
