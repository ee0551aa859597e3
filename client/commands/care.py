"""Verbs of an operator: `history`, `repair`, `resolve`, and `muster reconcile`."""

from __future__ import annotations

import getpass
from typing import Annotated

import typer
from rich.console import Group, RenderableType
from rich.markup import escape

from muster.client.care import SessionCare
from muster.client.commands.options import SessionArgument, TimeoutOption
from muster.client.commands.show import turns_table
from muster.client.durations import seconds
from muster.client.verb import Call, verb
from muster.domain.contracts import Decision, HistoryPage, RepairAnswer
from muster.domain.errors import InvalidInput


def register(app: typer.Typer) -> None:
    """Add the verbs."""
    verb(app, "history")(history)
    verb(app, "repair")(repair)
    verb(app, "resolve")(resolve)


async def history(
    call: Call,
    session: SessionArgument,
    limit: Annotated[
        int, typer.Option("--limit", min=1, max=100, help="Turns after which a page ends.")
    ] = 20,
    before: Annotated[
        str | None, typer.Option("--before", help="The cursor that a page before gave.")
    ] = None,
    within: TimeoutOption = None,
) -> None:
    """Page through the turns that have left a session's document, newest first."""
    found = await call.session(session, include_closed=True)
    page = await SessionCare(call.client).history(
        found, before=before, limit=limit, within=seconds(within)
    )
    call.out.rows(
        page.turns, names=[each.turn_id for each in page.turns], shown=_history_text(page)
    )
    for each in page.unreadable:
        call.out.aside.print(f"left out: {each}", highlight=False, soft_wrap=True, markup=False)
    if page.next_before:
        call.out.aside.print(
            f"more: --before {page.next_before}", highlight=False, soft_wrap=True, markup=False
        )


def _history_text(page: HistoryPage) -> RenderableType:
    return turns_table(page.turns) if page.turns else "[dim]nothing has left the document[/]"


async def repair(call: Call, session: SessionArgument, within: TimeoutOption = None) -> None:
    """Rebuild what can be rebuilt of a session, say what can't, and set it going again."""
    found = await call.session(session, include_closed=True)
    answer = await SessionCare(call.client).repair(found, within=seconds(within))
    call.out.result(answer, name=found, shown=_repair_text(answer))


def _repair_text(answer: RepairAnswer) -> RenderableType:
    done = "its document was rebuilt" if answer.rebuilt else "its document is good"
    mended = answer.projections_mended
    files = f"{mended} of the readers' files mended" if mended else "the readers' files are current"
    lines = [f"session [bold]{answer.session_id}[/]: {done}, revision {answer.revision}; {files}"]
    return Group(*lines, *(f"  [yellow]{escape(note)}[/]" for note in answer.notes))


async def resolve(
    call: Call,
    session: SessionArgument,
    retry: Annotated[
        bool, typer.Option("--retry", help="Look again; do it if it provably wasn't done.")
    ] = False,
    adopt: Annotated[
        bool, typer.Option("--adopt", help="Take what the runtime shows as it is.")
    ] = False,
    abandon: Annotated[
        bool, typer.Option("--abandon", help="Give it up and end what there is.")
    ] = False,
    operator: Annotated[
        str | None,
        typer.Option("--operator", help="Who decides, for the record.", show_default="your user"),
    ] = None,
    within: TimeoutOption = None,
) -> None:
    """Decide what becomes of a creation or a close that nobody can be sure of."""
    given = {Decision.RETRY: retry, Decision.ADOPT: adopt, Decision.ABANDON: abandon}
    chosen = [decision for decision, wanted in given.items() if wanted]
    if len(chosen) != 1:
        raise InvalidInput("choose one decision: --retry, --adopt or --abandon")
    found = await call.session(session, include_closed=True)
    resolved = await SessionCare(call.client).resolve(
        found, chosen[0], operator=operator or getpass.getuser(), within=seconds(within)
    )
    call.out.result(
        resolved,
        name=found,
        shown=f"session [bold]{found}[/]: {resolved.decision.value}; "
        f"uncertain was: {escape(resolved.evidence)}",
    )


async def reconcile(call: Call, within: TimeoutOption = None) -> None:
    """Look at every session now, and nudge those whose work nobody does."""
    totals = await SessionCare(call.client).reconcile(within=seconds(within))
    lines = [
        f"{totals.seen} sessions seen, {totals.nudged} nudged, {totals.needs_repair} need repair"
    ]
    lines += [f"  {each}" for each in totals.session_ids]
    if call.out.quiet:
        call.out.rows([], names=totals.session_ids, shown="")
        return
    call.out.result(totals, name=call.client.namespace, shown="\n".join(lines))
