"""Verbs that end something: `stop`, `cancel`, `close`."""

from __future__ import annotations

from typing import Annotated

import typer

from muster.client.commands.options import ForceOption, KeyOption, SessionArgument, TimeoutOption
from muster.client.durations import parse_duration, seconds
from muster.client.verb import Call, verb
from muster.domain.errors import MusterError


def register(app: typer.Typer) -> None:
    """Add the verbs."""
    verb(app, "stop")(stop)
    verb(app, "cancel")(cancel)
    verb(app, "close")(close)


async def stop(
    call: Call,
    session: SessionArgument,
    keep_queue: Annotated[
        bool, typer.Option("--keep-queue", help="Only the running turn; the next one starts.")
    ] = False,
    turn: Annotated[
        str | None, typer.Option("--turn", help="Only if this turn runs.", show_default=False)
    ] = None,
    key: KeyOption = None,
    within: TimeoutOption = None,
) -> None:
    """Cancel the running turn and the queue; with nothing to stop it is a success."""
    found = await call.session(session)
    done = await call.client.stop(
        found, keep_queue=keep_queue, turn=turn, key=key, within=seconds(within)
    )
    shown = {"nothing_running": "nothing runs", "requested": "is being stopped"}
    status = str(done.response.get("status", "stopped"))
    call.out.result(done, name=found, shown=f"{found}: {shown.get(status, status)}")


async def cancel(
    call: Call,
    session: SessionArgument,
    turn: Annotated[str, typer.Argument(metavar="TURN", help="A queued turn.")],
    key: KeyOption = None,
    within: TimeoutOption = None,
) -> None:
    """Take a queued turn out of the queue; one that has ended already is a success."""
    found = await call.session(session)
    done = await call.client.cancel_turn(found, turn, key=key, within=seconds(within))
    status = done.response.get("status", "cancelled")
    call.out.result(done, name=turn, shown=f"turn {turn} is {status}")


async def close(
    call: Call,
    session: SessionArgument,
    force: ForceOption = False,
    keep_history: Annotated[
        bool, typer.Option("--keep-history", help="Keep what its turns and reports were.")
    ] = False,
    idle_for: Annotated[
        str | None,
        typer.Option(
            "--if-idle-for",
            metavar="DURATION",
            help="Refuse if there was activity more recently.",
            show_default=False,
        ),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would go, and change nothing.")
    ] = False,
    key: KeyOption = None,
    within: TimeoutOption = None,
) -> None:
    """End a session's agent and remove the session; its working directory stays as it is."""
    idle = parse_duration(idle_for) if idle_for else None
    found = await call.session(session, include_closed=True)
    if dry_run:
        await _preview(call, found, keep_history=keep_history)
        return
    answer = await call.client.close(
        found,
        force=force,
        keep_history=keep_history,
        idle_for=idle,
        key=key,
        within=seconds(within),
    )
    settled = len(answer.settled_turn_ids)
    ended = f"; {settled} turns ended with it" if settled else ""
    call.out.result(answer, name=found, shown=f"session [bold]{found}[/] is closed{ended}")


async def _preview(call: Call, session: str, *, keep_history: bool) -> None:
    summary = await call.client.sessions.get(session)
    closed = summary.closed_at is not None
    busy = None if closed else await _active_turn(call, session)
    goes = ["the agent", f"{summary.turns} turns"]
    goes += [f"{summary.queued} queued prompts"] if summary.queued else []
    goes += [f"{summary.open_questions} open questions"] if summary.open_questions else []
    stays = [f"the working directory {summary.cwd}", "the public events", "a tombstone"]
    (stays if keep_history else goes).append("the history of its turns and reports")
    facts = {
        "session_id": session,
        "closed": closed,
        "refused_without_force": busy is not None,
        "active_turn_id": busy,
        "goes": goes,
        "stays": stays,
    }
    lines = [f"close of {session}, not carried out"]
    if closed:
        lines = [f"{session} is closed already; nothing would change"]
    elif busy:
        lines.append(f"refused unless --force: turn {busy} runs")
    lines += [f"goes:  {', '.join(goes)}", f"stays: {', '.join(stays)}"]
    call.out.result(facts, name=session, shown="\n".join(lines))


async def _active_turn(call: Call, session: str) -> str | None:
    """The turn that runs by the workflow's word, or by the readers' copy where none answers."""
    try:
        active = (await call.client.control(session)).active
        return active.turn_id if active else None
    except MusterError:
        view = await call.client.sessions.view(session)
        return view.active_turn_id if view else None
