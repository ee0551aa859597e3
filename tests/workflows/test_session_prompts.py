"""Prompts: refused while a turn runs, queued in order, exactly once, stopped."""

from __future__ import annotations

import asyncio

import pytest

from muster.domain.errors import ActiveTurnExists, IdempotencyConflict, ResourceGone
from muster.domain.turn_model import TurnStatus
from tests.waiting import eventually_async
from tests.workflows.support import FREELY, Home


async def test_a_prompt_changes_files_and_its_turn_says_how_it_ended(home: Home) -> None:
    session = (await home.create()).session_id
    turn = await home.run(session, FREELY + "echo hello | tee made.txt")
    assert (home.cwd / "made.txt").read_text() == "hello\n"
    assert (turn.status, turn.stop_reason) == (TurnStatus.COMPLETED, "end_turn")
    assert turn.response is not None
    assert turn.response.text == "hello\n"


async def test_a_prompt_is_refused_while_a_turn_runs(simulated: Home) -> None:
    session = (await simulated.create()).session_id
    first = await simulated.client.send(session, "hold")
    with pytest.raises(ActiveTurnExists) as refused:
        await simulated.client.send(session, "another")
    assert refused.value.details["turn_id"] == first.turn_id
    assert (await simulated.control(session)).turns == 1


async def test_follow_ups_run_in_the_order_in_which_they_were_accepted(simulated: Home) -> None:
    session = (await simulated.create()).session_id
    await simulated.client.send(session, "hold")
    queued = [
        await simulated.client.send(session, f"step {n}", operation="turn.follow_up")
        for n in range(3)
    ]
    assert [each.position for each in queued] == [1, 2, 3]
    await simulated.client.stop(session, keep_queue=True)
    for each in queued:
        assert (await simulated.ended(session, each.turn_id)).status is TurnStatus.COMPLETED
    assert simulated.agent(session).prompts == ["hold", "step 0", "step 1", "step 2"]


async def test_abort_and_prompt_waits_for_the_aborted_turn_and_goes_before_the_queue(
    simulated: Home,
) -> None:
    session = (await simulated.create()).session_id
    running = await simulated.client.send(session, "hold")
    await simulated.runs_turn(session, running.turn_id)
    queued = await simulated.client.send(session, "later", operation="turn.follow_up")
    urgent = await simulated.client.send(session, "urgent", operation="turn.abort_and_prompt")
    assert (await simulated.ended(session, queued.turn_id)).status is TurnStatus.COMPLETED
    aborted = await simulated.ended(session, running.turn_id)
    assert aborted.stop_reason == "cancelled"
    assert (await simulated.ended(session, urgent.turn_id)).status is TurnStatus.COMPLETED
    assert simulated.agent(session).prompts == ["hold", "urgent", "later"]


async def test_the_same_key_and_prompt_hears_the_first_receipt_and_runs_once(
    simulated: Home,
) -> None:
    session = (await simulated.create()).session_id
    heard = await asyncio.gather(
        *(simulated.client.send(session, "once", key="k") for _ in range(5))
    )
    assert len({each.turn_id for each in heard}) == 1
    assert sorted(each.repeated for each in heard) == [False, True, True, True, True]
    await simulated.ended(session, heard[0].turn_id)
    assert (await simulated.client.send(session, "once", key="k")).repeated
    assert simulated.agent(session).prompts == ["once"]


async def test_another_prompt_under_the_key_is_a_conflict_that_names_the_text(
    simulated: Home,
) -> None:
    session = (await simulated.create()).session_id
    await simulated.client.send(session, "one", key="k")
    with pytest.raises(IdempotencyConflict) as refused:
        await simulated.client.send(session, "two", key="k")
    assert refused.value.details["fields"] == ["text"]


async def test_a_refusal_of_the_agent_ends_the_turn_and_the_session_takes_the_next(
    simulated: Home,
) -> None:
    session = (await simulated.create()).session_id
    assert (await simulated.run(session, "refuse")).stop_reason == "refusal"
    assert (await simulated.run(session, "go on")).status is TurnStatus.COMPLETED


async def test_a_prompt_to_a_runtime_that_is_away_is_delivered_once_it_is_back(
    simulated: Home,
) -> None:
    session = (await simulated.create()).session_id
    simulated.runtime.unavailable["deliver"] = 2
    assert (await simulated.run(session, "patience")).status is TurnStatus.COMPLETED
    assert simulated.agent(session).prompts == ["patience"]


async def test_stop_with_nothing_running_is_a_success(simulated: Home) -> None:
    session = (await simulated.create()).session_id
    done = await simulated.client.stop(session)
    assert done.response == {"status": "nothing_running", "cancelled_queued": []}
    assert simulated.runtime.calls["interrupt"] == 0


async def test_stop_cancels_what_runs_and_what_is_queued(home: Home) -> None:
    session = (await home.create()).session_id
    running = await home.client.send(session, FREELY + "echo begun > begun.txt; sleep 60")
    queued = await home.client.send(session, FREELY + "touch never.txt", operation="turn.follow_up")

    async def begun() -> bool:
        return (home.cwd / "begun.txt").exists()

    await eventually_async(begun)
    stopped = await home.client.stop(session, key="enough")
    assert stopped.response["cancelled_queued"] == [queued.turn_id]
    assert (await home.ended(session, running.turn_id)).status is TurnStatus.CANCELLED
    assert (await home.ended(session, queued.turn_id)).status is TurnStatus.CANCELLED
    settled = await home.client.stop(session, key="enough")
    assert (settled.repeated, settled.response["status"]) == (True, "cancelled")
    assert (await home.run(session, FREELY + "true")).status is TurnStatus.COMPLETED
    assert not (home.cwd / "never.txt").exists()


async def test_a_queued_turn_can_be_taken_out_of_the_queue(simulated: Home) -> None:
    session = (await simulated.create()).session_id
    await simulated.client.send(session, "hold")
    queued = await simulated.client.send(session, "never", operation="turn.follow_up")
    done = await simulated.client.cancel_turn(session, queued.turn_id)
    assert done.response["status"] == "cancelled"
    await simulated.client.stop(session)
    await simulated.client.wait(session, "idle", within=15)
    assert simulated.agent(session).prompts == ["hold"]


async def test_a_session_that_never_was_is_named_in_the_refusal(simulated: Home) -> None:
    with pytest.raises(ResourceGone, match="no session 'nobody'"):
        await simulated.client.send("nobody", "hello")
