"""An agent outlives the worker that started it."""

from __future__ import annotations

import pytest

from tests.faults.harness import AGENT, System
from tests.faults.oracles import check

pytestmark = pytest.mark.faults


async def test_a_killed_worker_leaves_the_agent_at_work_and_the_next_one_hears_how_it_went(
    system: System,
) -> None:
    first = await system.start_worker()
    session = (await system.create()).session_id
    await system.prompt(session, "k", system.script("k", until="go"))
    await system.left("k")
    first.kill()
    assert system.living_agents() == 1
    system.release("go")
    await system.left("k went on")
    await system.start_worker()
    await system.idle(session)
    again = await system.prompt(session, "k", system.script("k", until="go"))
    assert again.repeated
    await check(system)
    assert system.evidence() == {AGENT: 1, "k": 1, "k went on": 1}
