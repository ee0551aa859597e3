"""A session whose history is left behind: nothing is lost, run twice or forgotten."""

from __future__ import annotations

import asyncio

import pytest

from muster.domain.errors import IdempotencyConflict
from muster.domain.identifiers import session_workflow_id
from muster.domain.turn_model import TurnStatus
from tests.workflows.scenario import restart_with_short_runs
from tests.workflows.support import Home


async def runs_of(home: Home, session: str) -> int:
    """How many runs the session's workflow had since it began anew."""
    workflow_id = session_workflow_id(home.settings.namespace, session)
    run_id: str | None = None
    count = 0
    while True:
        handle = home.temporal.get_workflow_handle(workflow_id, run_id=run_id)
        started = (
            (await handle.fetch_history()).events[0].workflow_execution_started_event_attributes
        )
        count += 1
        run_id = started.continued_execution_run_id
        if not run_id:
            return count


async def test_every_prompt_runs_once_across_runs_and_its_receipt_survives(
    simulated: Home,
) -> None:
    created = await simulated.create()
    session = created.session_id
    await restart_with_short_runs(simulated, created)
    sent = [
        await simulated.client.send(session, f"step {n}", key=f"k{n}", operation="turn.follow_up")
        for n in range(12)
    ]
    last = await simulated.ended(session, sent[-1].turn_id)
    assert last.status is TurnStatus.COMPLETED
    assert await runs_of(simulated, session) > 1
    assert simulated.agent(session).prompts == [f"step {n}" for n in range(12)]
    again = await simulated.client.send(session, "step 0", key="k0", operation="turn.follow_up")
    assert again == sent[0].model_copy(update={"repeated": True})
    with pytest.raises(IdempotencyConflict):
        await simulated.client.send(session, "other", key="k0", operation="turn.follow_up")


async def test_commands_that_meet_the_end_of_a_run_are_answered_all_the_same(
    simulated: Home,
) -> None:
    created = await simulated.create()
    session = created.session_id
    await restart_with_short_runs(simulated, created)

    async def sender(name: str) -> list[str]:
        turns = []
        for n in range(10):
            accepted = await simulated.client.send(
                session, f"{name} {n}", operation="turn.follow_up"
            )
            turns.append(accepted.turn_id)
        return turns

    turns = await asyncio.gather(*(sender(name) for name in ("a", "b", "c")))
    for each in turns:
        assert (await simulated.ended(session, each[-1])).status is TurnStatus.COMPLETED
    assert await runs_of(simulated, session) > 1
    ran = simulated.agent(session).prompts
    assert sorted(ran) == sorted(f"{name} {n}" for name in "abc" for n in range(10))
    for name in "abc":
        assert [each for each in ran if each.startswith(name)] == [f"{name} {n}" for n in range(10)]


async def test_a_question_outlives_the_run_that_asked_it(simulated: Home) -> None:
    created = await simulated.create()
    session = created.session_id
    await restart_with_short_runs(simulated, created)
    asked = await simulated.client.send(session, "ask")
    question = (await simulated.question(session)).question_id
    before = await runs_of(simulated, session)
    for n in range(40):
        await simulated.client.report(session, "note", f"note {n}")
        if await runs_of(simulated, session) > before:
            break
    assert await runs_of(simulated, session) > before
    assert (await simulated.client.answer(session, question, "allow")).status == "accepted"
    assert (await simulated.ended(session, asked.turn_id)).status is TurnStatus.COMPLETED
    assert simulated.agent(session).prompts == ["ask"]
