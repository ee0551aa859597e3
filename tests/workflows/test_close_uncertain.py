"""A close whose runtime can't say whether it ended waits, visibly, until somebody decides."""

from __future__ import annotations

import asyncio

import pytest
from temporalio.testing import WorkflowEnvironment

from muster.client.care import SessionCare
from muster.domain.closing import CloseAnswer
from muster.domain.contracts import Decision
from muster.domain.control import MusterStatus
from muster.domain.errors import ActiveTurnExists, ResourceGone, SessionClosing
from muster.domain.identifiers import close_workflow_id
from muster.domain.summaries import SessionSummary
from tests.waiting import eventually, eventually_async
from tests.workflows.support import Home, minutes_pass


async def uncertain(home: Home, session: str) -> SessionSummary:
    """What a list shows of the session once its close is uncertain."""

    async def look() -> SessionSummary | None:
        found = await home.client.sessions.get(session)
        return found if found.status is MusterStatus.UNCERTAIN else None

    found = await eventually_async(look)
    assert found is not None
    return found


async def lose_the_reply(home: Home) -> tuple[str, asyncio.Task[CloseAnswer]]:
    """A session whose close is under way and has lost the runtime's reply once."""
    created = await home.create()
    home.runtime.unknown["close"] = 1
    closing = asyncio.create_task(home.client.close(created.session_id))
    shown = await uncertain(home, created.session_id)
    assert shown.uncertain == "the reply to close was lost"
    assert shown.uncertain_workflow == close_workflow_id(
        home.settings.namespace, created.session_id, created.incarnation
    )
    assert not closing.done()
    return created.session_id, closing


async def test_an_uncertain_close_removes_nothing_and_takes_no_command(simulated: Home) -> None:
    session, closing = await lose_the_reply(simulated)
    assert (simulated.namespace_folder / "sessions" / session / "session.json").exists()
    with pytest.raises(SessionClosing):
        await simulated.client.send(session, "too late")
    await SessionCare(simulated.client).resolve(session, Decision.RETRY)
    await closing


@pytest.mark.parametrize(
    ("decision", "gone", "abandoned", "asked"),
    [
        (Decision.RETRY, False, False, 2),
        (Decision.ADOPT, True, False, 1),
        (Decision.ABANDON, False, True, 1),
    ],
)
async def test_a_decision_ends_an_uncertain_close_and_the_answer_says_what_is_known(
    simulated: Home, decision: Decision, gone: bool, abandoned: bool, asked: int
) -> None:
    session, closing = await lose_the_reply(simulated)
    resolved = await SessionCare(simulated.client).resolve(session, decision, operator="ann")
    assert resolved.evidence == "the reply to close was lost"
    answer = await closing
    assert (answer.runtime_already_gone, answer.runtime_abandoned) == (gone, abandoned)
    assert simulated.runtime.calls["close"] == asked
    assert simulated.agent(session).gone == (decision is Decision.RETRY)
    shown = await simulated.client.sessions.get(session)
    assert shown.closed_at == answer.completed_at
    assert shown.uncertain is None
    assert not (simulated.namespace_folder / "sessions" / session).exists()


async def test_a_retry_that_is_uncertain_again_asks_again(simulated: Home) -> None:
    created = await simulated.create()
    simulated.runtime.unknown["close"] = 2
    closing = asyncio.create_task(simulated.client.close(created.session_id))
    care = SessionCare(simulated.client)
    await uncertain(simulated, created.session_id)
    await care.resolve(created.session_id, Decision.RETRY)

    async def asked_again() -> bool:
        return simulated.runtime.calls["close"] == 2

    await eventually_async(asked_again)

    async def decide() -> bool:
        try:
            await care.resolve(created.session_id, Decision.RETRY)
        except ResourceGone:
            return False  # the second reply isn't lost yet
        return True

    await eventually_async(decide)
    assert not (await closing).runtime_abandoned
    assert simulated.runtime.calls["close"] == 3


async def test_nothing_can_be_decided_about_a_close_that_is_certain(simulated: Home) -> None:
    session = (await simulated.create()).session_id
    with pytest.raises(ResourceGone, match="uncertain"):
        await SessionCare(simulated.client).resolve(session, Decision.ABANDON)
    assert not simulated.agent(session).gone


async def test_a_runtime_that_refuses_for_ten_minutes_makes_the_close_uncertain(
    skipping: Home, time_skipping: WorkflowEnvironment
) -> None:
    session = (await skipping.create()).session_id
    skipping.runtime.unavailable["close"] = 10_000
    closing = asyncio.create_task(skipping.client.close(session))
    # Time that passes before the first attempt isn't the runtime's.
    await eventually(lambda: skipping.runtime.calls["close"])
    await minutes_pass(time_skipping, 12)
    shown = await uncertain(skipping, session)
    assert shown.uncertain is not None
    assert "close" in shown.uncertain
    skipping.runtime.unavailable.clear()
    await SessionCare(skipping.client).resolve(session, Decision.RETRY)
    assert not (await closing).runtime_abandoned
    assert skipping.agent(session).gone


async def test_an_abandoned_runtime_holds_up_neither_a_delivery_nor_an_answer_nor_a_stop(
    simulated: Home,
) -> None:
    """The turn's own commands to a runtime that nobody can reach end with the forced close."""
    created = await simulated.create()
    session = created.session_id
    simulated.runtime.unavailable.update({"deliver": 10_000, "interrupt": 10_000, "answer": 10_000})
    sent = await simulated.client.send(session, "work")
    await simulated.client.stop(session)
    with pytest.raises(ActiveTurnExists):
        await simulated.client.close(session)
    simulated.runtime.unknown["close"] = 1
    closing = asyncio.create_task(simulated.client.close(session, force=True))
    await uncertain(simulated, session)
    await SessionCare(simulated.client).resolve(session, Decision.ABANDON)
    answer = await closing
    assert answer.settled_turn_ids == (sent.turn_id,)
    assert answer.runtime_abandoned
