"""Ending every agent of a state root, as a stopped development stack does."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from muster.runtimes.acp import layout
from muster.runtimes.acp.processes import identify
from muster.runtimes.acp.record import recorded_processes
from muster.worker.agents import end_agents
from tests.runtimes.acp.support import Home
from tests.waiting import eventually


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    made = Home.make(tmp_path)
    try:
        yield made
    finally:
        made.end_everything()


async def test_every_agent_of_the_root_ends_with_all_that_it_started(home: Home) -> None:
    sessions = [await home.launch(home.request(name)) for name in ("s-1", "s-2")]
    processes = [each for one in sessions for each in recorded_processes(one.record())]
    assert await end_agents(home.root) == 2
    await eventually(lambda: not any(layout.is_alive(each.folder) for each in sessions))
    assert [each for each in processes if identify(each.pid) == each] == []
    assert await end_agents(home.root) == 0


async def test_a_root_without_sessions_has_no_agent_to_end(tmp_path: Path) -> None:
    assert await end_agents(tmp_path / "state") == 0
