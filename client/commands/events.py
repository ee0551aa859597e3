"""`muster events …`: the public events of a namespace."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from muster.client.events import ReadPage, journal_source, mongo_source, tail
from muster.client.verb import Call, verb
from muster.domain.errors import InvalidInput
from muster.domain.public_events import PublicEvent


class Source(StrEnum):
    """Where events are read from."""

    MONGO = "mongo"
    JOURNAL = "journal"


def events_app() -> typer.Typer:
    """`muster events …`."""
    app = typer.Typer(no_args_is_help=True, help="Read what happened, in one order.")
    verb(app, "tail")(tail_events)
    return app


async def tail_events(
    call: Call,
    after: Annotated[
        int, typer.Option("--after", metavar="SEQ", min=0, help="The sequence you saw last.")
    ] = 0,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Wait for more, until Ctrl-C.")
    ] = False,
    limit: Annotated[
        int | None, typer.Option("--limit", min=1, help="How many at most.", show_default="all")
    ] = None,
    source: Annotated[
        Source, typer.Option("--source", help="Both hold the same events.")
    ] = Source.MONGO,
    state_root: Annotated[
        Path | None,
        typer.Option(
            "--state-root",
            envvar="MUSTER_STATE_ROOT",
            help="For the journal: the folder that workers keep sessions in.",
            show_default="the running stack's",
        ),
    ] = None,
) -> None:
    """Show public events after a sequence; exit status 5 if some of them were removed."""
    read = _source(call, source, state_root)
    async for event in tail(read, after, limit=limit, follow=follow):
        call.out.result(event, name=event.public_event_id, shown=event_line(event))


def _source(call: Call, source: Source, state_root: Path | None) -> ReadPage:
    namespace = call.client.namespace
    if source is Source.MONGO:
        return mongo_source(call.client.sessions.mongo, namespace)
    if state_root is None:
        stack = call.client.servers.stack
        if stack is None:
            raise InvalidInput(
                "which state root holds the journal? Give --state-root or MUSTER_STATE_ROOT, or "
                "read from MongoDB with --source mongo"
            )
        state_root = Path(stack.state_root)
    return journal_source(state_root, namespace)


def event_line(event: PublicEvent) -> str:
    """One event on one line for people."""
    facts = {
        name: value
        for name, value in event.payload.items()
        if name not in {"session_id", "created_at"} and value not in (None, "")
    }
    about = "" if event.entity == "session" else f" {event.entity_id}"
    said = " ".join(f"{name}={value}" for name, value in facts.items())
    return f"{event.seq:>8}  {event.session_id}  {event.kind}{about}  {said}".rstrip()
