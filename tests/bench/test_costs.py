"""What a creation and a prompt cost, in counts that no busy machine changes."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from bench import gate, prompt, session
from bench.common import Figure
from bench.measure import Meter
from bench.stage import Servers, Stage, open_stage_on


@pytest.fixture
async def stage(temporal_address: str, mongo_uri: str, tmp_path: Path) -> AsyncIterator[Stage]:
    """A worker whose agents need no time, on the servers of the other tests."""
    servers = Servers(temporal_address, mongo_uri)
    async with open_stage_on(servers, tmp_path, "instant") as opened:
        yield opened


async def test_a_creation_and_a_prompt_cost_no_more_than_their_baseline(stage: Stage) -> None:
    meter, created, sent = Meter(stage), session.Sample(), prompt.real_sample()
    await session.creations(meter, session.Sample(), 1, 1.0)
    await session.creations(meter, created, 1, 1.0)
    [one] = created.created
    # The first prompt makes folders that later ones find.
    await prompt.prompts(meter, prompt.real_sample(), [one.session_id], 1, 1.0)
    before = await prompt.settled_events(stage, one.session_id)
    await prompt.prompts(meter, sent, [one.session_id], 1, 1.0)
    after = await prompt.settled_events(stage, one.session_id)

    figures = [
        *created.costs.figures(session.NAME, await session.creation_events(stage, one)),
        *sent.costs.figures(prompt.NAME, after - before),
    ]

    counted = [each for each in figures if each.unit in gate.COUNTS]
    assert {each.name for each in counted} == {
        f"{operation}: {unit}"
        for operation in ("creation", "prompt")
        for unit in ("history events", "fsyncs", "MongoDB commands")
    }
    assert gate.risen(counted, gate.read_baseline()) == []
    assert after - before <= prompt.MOST_EVENTS


def test_a_figure_that_has_risen_by_a_fifth_is_reported() -> None:
    known = {"prompt: fsyncs": 30.0}
    just_below = Figure("prompt: fsyncs", "fsyncs", 35.9)

    assert gate.risen([just_below], known) == []
    assert gate.risen([replace(just_below, p50=36.0)], known) == [
        "prompt: fsyncs: 36 fsyncs, the baseline is 30"
    ]
