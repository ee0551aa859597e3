"""Questions: answered once, the second hears what won, and what a policy decides."""

from __future__ import annotations

import asyncio

import pytest

from muster.domain.changes import AnswerClaimed
from muster.domain.errors import AlreadyAnswered, InvalidInput, QuestionCancelled
from muster.domain.session_document import SessionPolicy
from muster.domain.turn_model import TurnStatus
from tests.workflows.support import Home


async def test_a_script_runs_only_after_its_question_is_answered(home: Home) -> None:
    session = (await home.create()).session_id
    sent = await home.client.send(session, "touch allowed.txt")
    question = await home.question(session)
    assert [each.kind for each in question.options] == [
        "allow_once",
        "allow_always",
        "reject_once",
        "reject_always",
    ]
    assert not (home.cwd / "allowed.txt").exists()
    answered = await home.client.answer(session, question.question_id, "allow_once")
    assert answered.status == "accepted"
    assert (await home.ended(session, sent.turn_id)).status is TurnStatus.COMPLETED
    assert (home.cwd / "allowed.txt").exists()


async def test_of_two_answers_at_once_one_wins_and_the_other_hears_which(
    simulated: Home,
) -> None:
    session = (await simulated.create()).session_id
    await simulated.client.send(session, "ask")
    question = (await simulated.question(session)).question_id
    options = ["allow", "reject"] * 3
    heard = await asyncio.gather(
        *(simulated.client.answer(session, question, option) for option in options),
        return_exceptions=True,
    )
    won = [each for each in heard if isinstance(each, AnswerClaimed)]
    lost = [each for each in heard if isinstance(each, AlreadyAnswered)]
    assert (len(won), len(lost)) == (1, 5)
    assert {each.details["option_id"] for each in lost} == {won[0].option_id}
    assert simulated.runtime.calls["answer"] == 1


async def test_the_same_answer_under_its_key_hears_the_first_receipt(simulated: Home) -> None:
    session = (await simulated.create()).session_id
    await simulated.client.send(session, "ask")
    question = (await simulated.question(session)).question_id
    first = await simulated.client.answer(session, question, "allow", key="k")
    again = await simulated.client.answer(session, question, "allow", key="k")
    assert again == first.model_copy(update={"repeated": True})
    assert simulated.runtime.calls["answer"] == 1


async def test_an_option_that_was_not_offered_is_refused_and_the_question_stays(
    simulated: Home,
) -> None:
    session = (await simulated.create()).session_id
    await simulated.client.send(session, "ask")
    question = (await simulated.question(session)).question_id
    with pytest.raises(InvalidInput, match="allow, reject"):
        await simulated.client.answer(session, question, "maybe")
    assert [each.question_id for each in (await simulated.control(session)).questions] == [question]


async def test_a_stop_cancels_the_open_question(simulated: Home) -> None:
    session = (await simulated.create()).session_id
    sent = await simulated.client.send(session, "ask")
    question = (await simulated.question(session)).question_id
    await simulated.client.stop(session)
    assert (await simulated.ended(session, sent.turn_id)).status is TurnStatus.CANCELLED
    with pytest.raises(QuestionCancelled):
        await simulated.client.answer(session, question, "allow")


async def test_a_question_that_nobody_answers_is_denied_where_the_policy_says_so(
    simulated: Home,
) -> None:
    policy = SessionPolicy(question_on_timeout="deny", question_timeout_seconds=1)
    session = (await simulated.create(policy=policy)).session_id
    turn = await simulated.run(session, "ask")
    assert turn.stop_reason == "refusal"
    assert list(simulated.agent(session).answers) != []


async def test_a_question_that_nobody_answers_fails_its_turn_where_the_policy_says_so(
    simulated: Home,
) -> None:
    policy = SessionPolicy(question_on_timeout="fail", question_timeout_seconds=1)
    session = (await simulated.create(policy=policy)).session_id
    turn = await simulated.run(session, "ask")
    assert turn.status in (TurnStatus.CANCELLED, TurnStatus.FAILED)
    assert simulated.runtime.calls["answer"] == 0
    assert (await simulated.run(session, "go on")).status is TurnStatus.COMPLETED


async def test_a_policy_decides_once_however_long_the_runtime_takes(simulated: Home) -> None:
    policy = SessionPolicy(question_on_timeout="fail", question_timeout_seconds=1)
    session = (await simulated.create(policy=policy)).session_id
    simulated.runtime.unavailable["interrupt"] = 2
    await simulated.run(session, "ask")
    history = await simulated.session_history(session)
    assert len(history.events) < 60
