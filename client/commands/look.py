"""Verbs that only read: `ls`, `show`, `questions`, `wait`, `watch`."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.live import Live

from muster.client.commands.options import SessionArgument, TimeoutOption
from muster.client.commands.show import (
    questions_text,
    session_text,
    status_text,
    summaries_table,
)
from muster.client.durations import seconds
from muster.client.verb import Call, verb
from muster.client.waiting import Awaited
from muster.domain.control import MusterStatus
from muster.domain.errors import ResourceGone
from muster.domain.summaries import PAGE_LIMIT


def register(app: typer.Typer) -> None:
    """Add the verbs."""
    for name, function in (
        ("ls", ls),
        ("show", show),
        ("questions", questions),
        ("wait", wait),
        ("watch", watch),
    ):
        verb(app, name)(function)


async def ls(
    call: Call,
    prefix: Annotated[str, typer.Argument(help="What the session ids begin with.")] = "",
    status: Annotated[
        list[MusterStatus] | None, typer.Option("--status", "-s", help="Only these; repeatable.")
    ] = None,
    closed: Annotated[bool, typer.Option("--all", "-a", help="Closed sessions too.")] = False,
    limit: Annotated[int, typer.Option("--limit", min=1, max=PAGE_LIMIT)] = 100,
    after: Annotated[
        str | None, typer.Option("--after", help="The cursor that a page before gave.")
    ] = None,
) -> None:
    """List sessions, newest activity first."""
    page = await call.client.sessions.list(
        statuses=tuple(status or ()),
        prefix=prefix,
        include_closed=closed,
        limit=limit,
        after=after,
    )
    call.out.rows(
        page.summaries,
        names=[each.session_id for each in page.summaries],
        shown=summaries_table(page.summaries),
    )
    if page.next_after:
        call.out.aside.print(f"more: --after {page.next_after}", highlight=False, soft_wrap=True)


async def show(call: Call, session: SessionArgument) -> None:
    """Show one session: status, queue, questions, last turns and report."""
    found = await call.session(session, include_closed=True)
    sessions = call.client.sessions
    summary, view = await sessions.get(found), await sessions.view(found)
    call.out.result(
        {
            **summary.model_dump(mode="json"),
            "view": view.model_dump(mode="json") if view else None,
        },
        name=found,
        shown=session_text(summary, view),
    )


async def questions(
    call: Call,
    session: Annotated[
        str | None,
        typer.Argument(metavar="SESSION", help="Of this session.", show_default="of all"),
    ] = None,
) -> None:
    """List open questions with the options to answer them."""
    sessions = call.client.sessions
    if session is None:
        page = await sessions.list(statuses=(MusterStatus.QUESTION,), limit=PAGE_LIMIT)
        asking = [each.session_id for each in page.summaries]
    else:
        asking = [await call.session(session)]
    found = []
    for each in asking:
        view = await sessions.view(each)
        asked = view.questions if view else ()
        found += [(each, question) for question in asked]
        if call.out.plain and asked and session is None:
            call.out.console.print(f"session [bold]{each}[/]")
        if call.out.plain and (asked or session is not None):
            call.out.console.print(questions_text(asked), highlight=False)
    if not call.out.plain:
        call.out.rows(
            [{"session_id": name, **question.model_dump(mode="json")} for name, question in found],
            names=[question.question_id for _, question in found],
            shown="",
        )
    elif not found and session is None:
        call.out.console.print("[dim]no open questions[/]")


async def wait(
    call: Call,
    session: SessionArgument,
    awaited: Annotated[
        Awaited, typer.Option("--for", help="What to wait for.", show_choices=True)
    ] = Awaited.IDLE,
    within: TimeoutOption = None,
) -> None:
    """Wait until a session is idle, asks a question, or is closed; exit status 3 if it isn't."""
    found = await call.session(session, include_closed=True)
    summary = await call.client.wait(found, awaited, within=seconds(within))
    call.out.result(summary, name=found, shown=f"{found} is {status_text(summary.status)}")


async def watch(call: Call, session: SessionArgument) -> None:
    """Follow a session until it is closed or you press Ctrl-C."""
    found = await call.session(session)
    sessions = call.client.sessions
    live = Live(console=call.out.console, auto_refresh=False)
    drawing = call.out.plain and call.out.console.is_terminal
    if drawing:
        live.start()
    try:
        async for summary in call.client.changes(found):
            view = await sessions.view(found)
            if drawing:
                live.update(session_text(summary, view), refresh=True)
                continue
            running = f", turn {view.active_turn_id}" if view and view.active_turn_id else ""
            line = f"{summary.revision} {status_text(summary.status)}, {summary.queued} queued"
            call.out.result(view or summary, name=found, shown=f"{line}{running}")
    except ResourceGone:
        call.out.note(f"session {found} is gone")
    finally:
        live.stop()
