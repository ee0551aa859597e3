"""Running workflows survive a new version: recorded histories replay, decision for decision."""

from __future__ import annotations

from itertools import pairwise

import pydantic
import pytest
from temporalio import workflow
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.worker import Replayer

from muster.worker.wiring import WORKFLOWS
from tests.histories.fingerprint import fingerprint
from tests.histories.recorded import NAMES, load, load_fingerprints, readable
from tests.workflows.scenario import begin, live, use
from tests.workflows.support import Home


@pytest.mark.parametrize("name", NAMES)
async def test_a_recorded_history_replays(name: str) -> None:
    replayer = Replayer(
        workflows=WORKFLOWS,
        data_converter=pydantic_data_converter,
        workflow_failure_exception_types=[pydantic.ValidationError],
    )
    await replayer.replay_workflow(load(name))


def test_every_type_of_workflow_has_a_recorded_history() -> None:
    recorded = {
        load(name).events[0].workflow_execution_started_event_attributes.workflow_type.name
        for name in NAMES
    }
    assert recorded == {workflow._Definition.must_from_class(each).name for each in WORKFLOWS}


@pytest.mark.parametrize("name", NAMES)
def test_a_recording_says_nothing_of_the_machine_that_made_it(name: str) -> None:
    text = readable(load(name))
    for trace in ("/home/", "/root/", "/work/", "site-packages", "localhost"):
        assert trace not in text


@pytest.mark.parametrize("name", NAMES)
def test_the_fingerprint_of_a_recording_is_the_committed_one(name: str) -> None:
    assert fingerprint(load(name)) == load_fingerprints()[name]


async def test_a_life_lived_now_takes_the_recorded_decisions_in_their_order(
    simulated: Home,
) -> None:
    lived = await live(simulated)
    recorded = load_fingerprints()
    for name in ("create_session", "close_session"):
        assert fingerprint(lived.histories[name]) == recorded[name]
    assert steps(fingerprint(lived.histories["session"])) == steps(recorded["session"])


def steps(decisions: list[str]) -> list[str]:
    """Without what readers are told: when that happens among the steps is a matter of speed."""
    told = {"local activity publish_events", "search attributes", "answer an update"}
    return [each for each in decisions if each not in told]


def once(decisions: list[str]) -> list[str]:
    """Without repeated commits: a task that took too long is done again and finds its own there."""
    commit = "local activity commit_session"
    return [each for before, each in pairwise(["", *decisions]) if not (before == each == commit)]


async def test_a_life_without_a_cache_runs_the_same_prompts(uncached: Home) -> None:
    created = await begin(uncached)
    await use(uncached, created.session_id)
    assert uncached.agent(created.session_id).prompts == ["begin", "work", "ask", "hold"]
    history = await uncached.session_history(created.session_id)
    assert once(steps(fingerprint(history))) == once(steps(load_fingerprints()["session"]))
    assert (await uncached.client.close(created.session_id)).incarnation == created.incarnation
