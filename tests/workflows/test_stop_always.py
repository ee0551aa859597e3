"""Stop always works: for every state a session can be in, stop and close end it or say why not.

`Ending` is one state: how a session gets there, and what a stop, a close and a forced close come
to. A forced close of a session that has a readable document always ends it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import pytest
from temporalio.client import WorkflowFailureError, WorkflowHandle

from muster.domain.contracts import Updates
from muster.domain.errors import (
    IdempotencyConflict,
    MusterError,
    ResourceGone,
    StateCorrupt,
)
from muster.domain.identifiers import session_workflow_id
from muster.domain.turn_model import TERMINAL_TURN
from tests.waiting import eventually_async
from tests.workflows.support import Home

Prepare = Callable[[Home, str], Awaitable[None]]
FOR_EVER = 10_000


async def idle(home: Home, session: str) -> None:
    """Nothing has been asked for."""


async def unreachable(home: Home, session: str) -> None:
    home.runtime.unavailable.update({"deliver": FOR_EVER, "interrupt": FOR_EVER})
    await home.client.send(session, "work")


async def active(home: Home, session: str) -> None:
    sent = await home.client.send(session, "hold")
    await home.runs_turn(session, sent.turn_id)


async def asking(home: Home, session: str) -> None:
    await home.client.send(session, "ask")
    await home.question(session)


async def answering(home: Home, session: str) -> None:
    """An answer is claimed, and the runtime doesn't take it."""
    await asking(home, session)
    question = await home.question(session)
    home.runtime.unavailable["answer"] = FOR_EVER
    task = asyncio.create_task(home.client.answer(session, question.question_id, "allow"))
    task.add_done_callback(lambda done: done.cancelled() or done.exception())

    async def claimed() -> bool:
        return bool((await home.control(session)).claims)

    await eventually_async(claimed)


async def queued(home: Home, session: str) -> None:
    await active(home, session)
    for number in range(3):
        await home.client.send(session, f"later {number}", operation="turn.follow_up")


async def aborting(home: Home, session: str) -> None:
    """A turn is to be cancelled for another, and the runtime doesn't hear of it."""
    await active(home, session)
    home.runtime.unavailable["interrupt"] = FOR_EVER
    await home.client.send(session, "instead", operation="turn.abort_and_prompt")


async def gone(home: Home, session: str) -> None:
    await active(home, session)
    agent = home.agent(session)
    async with agent.news:
        agent.gone = True
        agent.news.notify_all()

    async def known() -> bool:
        return (await home.control(session)).gone is not None

    await eventually_async(known)


async def without_workflow(home: Home, session: str) -> None:
    """Somebody has terminated the session's workflow while a turn ran."""
    await active(home, session)
    await session_handle(home, session).terminate("by a careless hand")


async def fails_of_its_document(home: Home, session: str) -> None:
    """The session's workflow reads its damaged document again, which it doesn't survive."""
    handle = session_handle(home, session)
    await handle.signal(Updates.NUDGE)
    with pytest.raises(WorkflowFailureError):
        await handle.result()


def session_handle(home: Home, session: str) -> WorkflowHandle[Any, Any]:
    return home.temporal.get_workflow_handle(session_workflow_id(home.settings.namespace, session))


@dataclass(frozen=True)
class Ending:
    """A state, and what ends it."""

    prepare: Prepare
    stop: str
    """`ended`: nothing runs or waits; `requested`: until the runtime hears of it; or a code."""
    close: str
    """`done` or the code of the refusal."""

    def __str__(self) -> str:
        return self.prepare.__name__


STATES = (
    Ending(idle, "ended", "done"),
    Ending(unreachable, "requested", "active_turn_exists"),
    Ending(active, "ended", "active_turn_exists"),
    Ending(asking, "ended", "active_turn_exists"),
    Ending(answering, "ended", "active_turn_exists"),
    Ending(queued, "ended", "active_turn_exists"),
    Ending(aborting, "requested", "active_turn_exists"),
    Ending(gone, "ended", "done"),
    Ending(without_workflow, "resource_gone", "active_turn_exists"),
)


async def attempt(doing: Awaitable[object]) -> str:
    try:
        await doing
    except MusterError as error:
        return error.code
    return "done"


@pytest.mark.parametrize("state", STATES, ids=str)
async def test_a_stop_ends_what_runs_or_says_why_not(simulated: Home, state: Ending) -> None:
    session = (await simulated.create()).session_id
    await state.prepare(simulated, session)
    said = await attempt(simulated.client.stop(session))
    if state.stop not in ("ended", "requested"):
        assert said == state.stop
        return
    assert said == "done"
    if state.stop == "requested":
        simulated.runtime.unavailable.clear()  # the runtime can be reached again

    async def nothing_runs() -> bool:
        control = await simulated.control(session)
        return control.active is None and control.queued == 0

    await eventually_async(nothing_runs)
    agent = simulated.agent(session)
    assert agent.gone or agent.running is None
    assert "instead" not in agent.prompts
    assert not any(prompt.startswith("later") for prompt in agent.prompts)


@pytest.mark.parametrize("state", STATES, ids=str)
async def test_a_close_ends_a_session_or_says_why_not(simulated: Home, state: Ending) -> None:
    session = (await simulated.create()).session_id
    await state.prepare(simulated, session)
    assert await attempt(simulated.client.close(session)) == state.close
    folder = simulated.namespace_folder / "sessions" / session
    assert folder.exists() == (state.close != "done")


@pytest.mark.parametrize("state", STATES, ids=str)
async def test_a_forced_close_ends_a_session_in_every_state(simulated: Home, state: Ending) -> None:
    session = (await simulated.create()).session_id
    await state.prepare(simulated, session)
    view = await simulated.client.sessions.show(session)
    unfinished = {each.turn_id for each in view.turns if each.status not in TERMINAL_TURN}
    answer = await simulated.client.close(session, force=True)
    assert unfinished <= set(answer.settled_turn_ids)
    assert simulated.agent(session).gone
    assert not (simulated.namespace_folder / "sessions" / session).exists()
    with pytest.raises(ResourceGone):
        await simulated.client.stop(session)


async def test_a_session_that_is_closing_hears_of_the_close_and_its_close_ends(
    simulated: Home,
) -> None:
    created = await simulated.create()
    session = created.session_id
    simulated.runtime.unavailable["close"] = FOR_EVER
    closing = asyncio.create_task(simulated.client.close(session))

    async def admitted() -> bool:
        return (await simulated.control(session)).closing

    await eventually_async(admitted)
    assert (await simulated.client.stop(session)).response["status"] == "nothing_running"
    with pytest.raises(IdempotencyConflict):
        await simulated.client.close(session, force=True)
    simulated.runtime.unavailable.clear()
    again = await simulated.client.close(session, incarnation=created.incarnation)
    assert again == await closing


@pytest.mark.parametrize("read", [False, True], ids=["torn", "torn and read"])
async def test_a_session_whose_document_was_set_aside_says_how_it_can_be_repaired(
    simulated: Home, read: bool
) -> None:
    session = (await simulated.create()).session_id
    await simulated.control(session)  # the workflow has read it
    document = simulated.namespace_folder / "sessions" / session / "session.json"
    good = document.read_bytes()
    document.write_bytes(good[: len(good) // 2])
    if read:
        await fails_of_its_document(simulated, session)
    for ends in (simulated.client.stop, simulated.client.close):
        with pytest.raises(StateCorrupt, match="muster session repair"):
            await ends(session)
    with pytest.raises(StateCorrupt, match="muster session repair"):
        await simulated.client.close(session, force=True)
    document.write_bytes(good)
    assert await attempt(simulated.client.close(session, force=True)) == "done"
