"""On the fallback server: everything but listing works.

Days don't pass at once here: the server's clock stands while an activity is under way, and a
session with an open question always follows its agent.
"""

from __future__ import annotations

import pytest

from muster.client.requests import prompt_content
from muster.domain.errors import ResourceGone
from muster.domain.turn_model import TurnStatus
from tests.workflows.support import Home


async def test_creation_prompt_answer_and_close_work_without_a_cache_and_listing(
    skipping: Home,
) -> None:
    created = await skipping.create("key", initial_prompt=prompt_content("begin"))
    session = created.session_id
    assert created.initial_turn_id is not None
    await skipping.ended(session, created.initial_turn_id)
    asked = await skipping.client.send(session, "ask")
    question = (await skipping.question(session)).question_id
    assert (await skipping.client.answer(session, question, "allow")).status == "accepted"
    assert (await skipping.ended(session, asked.turn_id)).status is TurnStatus.COMPLETED
    assert skipping.agent(session).prompts == ["begin", "ask"]
    answer = await skipping.client.close(session)
    assert await skipping.client.close(session, incarnation=created.incarnation) == answer
    with pytest.raises(ResourceGone):
        await skipping.client.send(session, "too late")
