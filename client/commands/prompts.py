"""Verbs that a turn hears: `send` and `answer`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from muster.client.commands.options import (
    KeyOption,
    SessionArgument,
    TimeoutOption,
    chosen_text,
)
from muster.client.commands.show import turn_text
from muster.client.durations import seconds
from muster.client.requests import new_key
from muster.client.verb import Call, verb
from muster.domain.changes import PromptAccepted
from muster.domain.errors import InvalidInput
from muster.domain.session_document import PromptOperation
from muster.domain.summaries import SessionSummary
from muster.domain.turn_model import TurnStatus
from muster.domain.view import QuestionView

FAILED = 1


def register(app: typer.Typer) -> None:
    """Add the verbs."""
    verb(app, "send")(send)
    verb(app, "answer")(answer)


async def send(
    call: Call,
    session: SessionArgument,
    text: Annotated[
        str | None, typer.Argument(metavar="[TEXT]", help="The prompt; - reads standard input.")
    ] = None,
    file: Annotated[
        Path | None, typer.Option("--file", "-f", help="Read the prompt from here.")
    ] = None,
    follow_up: Annotated[
        bool, typer.Option("--follow-up", help="Queue behind what runs instead of being refused.")
    ] = False,
    abort: Annotated[
        bool, typer.Option("--abort", help="Cancel the running turn and come next.")
    ] = False,
    key: KeyOption = None,
    wait: Annotated[
        bool, typer.Option("--wait/--no-wait", help="Wait until the turn has ended.")
    ] = False,
    within: TimeoutOption = None,
) -> None:
    """Send a prompt; returns once it is on record, with --wait once its turn has ended."""
    prompt = chosen_text(text, file, what="the prompt")
    if prompt is None:
        raise InvalidInput("there is no prompt; give a text, --file PATH, or - for standard input")
    operation = _operation(follow_up=follow_up, abort=abort)
    found = await call.session(session)
    key, limit = key or new_key(), seconds(within)
    accepted = await call.client.send(
        found, prompt, operation=operation, key=key, source="muster", within=limit
    )
    if wait:
        await _wait(call, found, accepted, key, limit)
        return
    queued = f", number {accepted.position} in the queue" if accepted.position else ""
    again = " [dim](accepted before under this key)[/]" if accepted.repeated else ""
    call.out.result(
        {**accepted.model_dump(mode="json"), "key": key},
        name=accepted.turn_id,
        shown=f"turn [bold]{accepted.turn_id}[/] accepted{queued}{again}",
    )
    call.out.note(f"key {key}")


def _operation(*, follow_up: bool, abort: bool) -> PromptOperation:
    if follow_up and abort:
        raise InvalidInput("--follow-up and --abort exclude each other")
    if abort:
        return "turn.abort_and_prompt"
    return "turn.follow_up" if follow_up else "turn.prompt"


async def _wait(
    call: Call, session: str, accepted: PromptAccepted, key: str, within: float | None
) -> None:
    asked = False

    def tell(summary: SessionSummary) -> None:
        nonlocal asked
        if summary.open_questions and not asked:
            call.out.note(f"waits for an answer: muster session questions {session}")
        asked = bool(summary.open_questions)

    turn = await call.client.wait_turn(session, accepted.turn_id, within=within, on_change=tell)
    call.out.result(
        {**turn.model_dump(mode="json"), "key": key}, name=turn.turn_id, shown=turn_text(turn)
    )
    if turn.status is not TurnStatus.COMPLETED:
        raise typer.Exit(FAILED)


async def answer(
    call: Call,
    session: SessionArgument,
    question: Annotated[
        str | None,
        typer.Argument(
            metavar="[QUESTION]",
            help="The question's id or its beginning; may be left out when one is open.",
        ),
    ] = None,
    option: Annotated[
        str | None, typer.Argument(metavar="[OPTION]", help="An option's id or kind.")
    ] = None,
    allow: Annotated[bool, typer.Option("--allow", help="Allow it once.")] = False,
    allow_always: Annotated[
        bool, typer.Option("--allow-always", help="Allow it from now on.")
    ] = False,
    reject: Annotated[bool, typer.Option("--reject", help="Reject it once.")] = False,
    cancel: Annotated[bool, typer.Option("--cancel", help="Answer with none of them.")] = False,
    key: KeyOption = None,
    within: TimeoutOption = None,
) -> None:
    """Answer a question: `muster session answer SESSION QUESTION OPTION`, or with --allow."""
    kinds = {"allow_once": allow, "allow_always": allow_always, "reject_once": reject}
    chosen = [kind for kind, wanted in kinds.items() if wanted] + [option] * bool(option)
    if len(chosen) + cancel != 1:
        raise InvalidInput(
            "choose one answer: an option's id, --allow, --allow-always, --reject or --cancel"
        )
    found = await call.session(session)
    open_questions = await call.client.sessions.questions(found)
    asked, identifier = _which(call, question, open_questions)
    option_id = None if cancel else _option(asked, chosen[0] or "")
    key = key or new_key()
    claimed = await call.client.answer(
        found, identifier, option_id, key=key, source="muster", within=seconds(within)
    )
    said = claimed.option_id or "cancelled"
    call.out.result(
        {**claimed.model_dump(mode="json"), "key": key},
        name=claimed.question_id,
        shown=f"question [bold]{claimed.question_id}[/] answered with {said}",
    )


def _which(
    call: Call, given: str | None, open_questions: tuple[QuestionView, ...]
) -> tuple[QuestionView | None, str]:
    """The open question that is meant; one that isn't open any more by its full id alone."""
    if given is None:
        if not open_questions:
            raise InvalidInput("no question is open; name the one you mean")
        ids = tuple(each.question_id for each in open_questions)
        given = call.client.sessions.the_one("", ids, "question")
    fitting = [each for each in open_questions if each.question_id.startswith(given)]
    exact = [each for each in fitting if each.question_id == given]
    if exact or len(fitting) == 1:
        found = (exact or fitting)[0]
        return found, found.question_id
    if fitting:
        ids = tuple(each.question_id for each in fitting)
        call.client.sessions.the_one(given, ids, "question")
    return None, given


def _option(question: QuestionView | None, given: str) -> str:
    """The id of the option that `given` names by id or by kind."""
    for each in question.options if question else ():
        if given in (each.option_id, each.kind):
            return each.option_id
    return given
