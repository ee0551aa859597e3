"""Creation: once for its key, the same answer ever after, and refusals that leave nothing."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

from muster.client.requests import prompt_content
from muster.domain.creation import CreateAnswer, RegisteredEndpoint
from muster.domain.errors import IdempotencyConflict, SessionClosing, WorkingDirectoryUnusable
from muster.domain.turn_model import TurnStatus
from muster.runtimes.signing import generate_key
from tests.workflows.support import FREELY, Home


def files_below(home: Home, folder: str) -> list[str]:
    return sorted(
        str(each.relative_to(home.namespace_folder))
        for each in (home.namespace_folder / folder).rglob("*")
        if each.is_file()
    )


async def test_a_session_is_created_on_a_real_agent_and_runs_its_initial_prompt_once(
    home: Home,
) -> None:
    prompt = prompt_content(FREELY + "echo begun >> trace.txt")
    answer = await home.create("first", initial_prompt=prompt)
    assert answer.initial_turn_id is not None
    turn = await home.ended(answer.session_id, answer.initial_turn_id)
    assert turn.status is TurnStatus.COMPLETED
    assert await home.create("first", initial_prompt=prompt) == answer
    assert (home.cwd / "trace.txt").read_text() == "begun\n"


async def test_the_same_key_hears_the_first_answer_after_the_creation_has_ended(
    simulated: Home,
) -> None:
    first = await simulated.create("key", title="one")
    assert await simulated.create("key", title="one") == first
    assert simulated.runtime.calls["launch"] == 1


async def test_the_receipt_answers_when_temporal_has_forgotten_the_creation(
    simulated: Home, forgetful: Home
) -> None:
    first = await simulated.create("key")
    assert await forgetful.create("key") == first
    assert simulated.runtime.calls["launch"] == 1


async def test_the_receipt_answers_also_when_the_session_is_closed(
    simulated: Home, forgetful: Home
) -> None:
    first = await simulated.create("key")
    await simulated.client.close(first.session_id)
    assert await simulated.create("key") == first
    assert await forgetful.create("key") == first
    assert simulated.runtime.calls["launch"] == 1


async def test_another_request_under_the_key_is_a_conflict_that_names_what_differs(
    simulated: Home, forgetful: Home
) -> None:
    first = await simulated.create("key", title="one")
    for asked in (simulated, forgetful):
        with pytest.raises(IdempotencyConflict) as refused:
            await asked.create("key", title="two", model="large")
        assert refused.value.details["fields"] == ["title", "model"]
    assert await simulated.create("key", title="one") == first


async def test_twenty_creators_at_once_with_two_requests_make_one_session(
    simulated: Home,
) -> None:
    titles = ["one", "two"] * 10
    heard = await asyncio.gather(
        *(simulated.create("key", title=title) for title in titles), return_exceptions=True
    )
    answers = [each for each in heard if isinstance(each, CreateAnswer)]
    conflicts = [each for each in heard if isinstance(each, IdempotencyConflict)]
    assert (len(answers), len(conflicts)) == (10, 10)
    assert len(set(answers)) == 1
    assert simulated.runtime.calls["launch"] == 1
    assert len(files_below(simulated, "creations")) == 1
    winners = {title for title, each in zip(titles, heard, strict=True) if each in answers}
    assert len(winners) == 1


async def test_an_unusable_working_directory_is_refused_and_leaves_no_session(home: Home) -> None:
    missing = str(home.cwd / "not-there")
    with pytest.raises(WorkingDirectoryUnusable) as refused:
        await home.create("key", cwd=missing)
    assert missing in refused.value.message
    page = await home.client.sessions.list(include_closed=True)
    assert page.summaries == ()
    assert files_below(home, "sessions") == []


async def test_a_launch_that_is_refused_for_a_while_is_tried_until_it_works(
    simulated: Home,
) -> None:
    simulated.runtime.unavailable["launch"] = 2
    answer = await simulated.create()
    assert simulated.runtime.calls["launch"] == 3
    assert (await simulated.control(answer.session_id)).status == "waiting"


async def test_registering_a_session_that_runs_already_starts_nothing(simulated: Home) -> None:
    endpoint = RegisteredEndpoint(
        endpoint_url="acp:elsewhere",
        endpoint_incarnation="inc-elsewhere",
        verifier=generate_key().verifier,
    )
    answer = await simulated.create(kind="register", endpoint=endpoint)
    assert (answer.incarnation, answer.endpoint_url) == ("inc-elsewhere", "acp:elsewhere")
    assert simulated.runtime.calls == Counter()
    assert files_below(simulated, "keys") == []
    assert (await simulated.client.sessions.get(answer.session_id)).status == "waiting"


async def test_a_session_id_lives_again_only_after_its_deletion_completed(
    simulated: Home,
) -> None:
    first = await simulated.create("one", session_id="builder")
    with pytest.raises(SessionClosing):
        await simulated.create("two", session_id="builder")
    await simulated.client.close("builder")
    again = await simulated.create("three", session_id="builder")
    assert again.incarnation != first.incarnation
    assert (await simulated.run("builder", "go on")).status is TurnStatus.COMPLETED
    assert simulated.agent("builder").prompts == ["go on"]
