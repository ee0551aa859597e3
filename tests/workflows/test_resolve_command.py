"""`muster session resolve`: an operator decides by the command what nobody knows."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from muster.client.main import run
from muster.domain.control import MusterStatus
from muster.domain.errors import TerminalUncertain
from muster.domain.summaries import SessionSummary
from muster.domain.turn_model import TurnStatus
from tests.waiting import eventually_async
from tests.workflows.support import Home

Resolve = Callable[..., Awaitable[tuple[int, Any]]]


@pytest.fixture
def resolve(
    simulated: Home,
    temporal_address: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> Resolve:
    """Call the verb in this process; its exit status and what it printed."""
    settings = simulated.settings
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TEMPORAL_ADDRESS", temporal_address)
    monkeypatch.setenv("TEMPORAL_CONFIG_FILE", os.devnull)
    for name in ("namespace", "root", "runtime_host", "mongo_uri", "mongo_database"):
        monkeypatch.setenv(f"MUSTER_{name.upper()}", str(getattr(settings, name)))

    async def call(session: str, *options: str) -> tuple[int, Any]:
        capsys.readouterr()
        status = await asyncio.to_thread(run, ["session", "resolve", session, *options, "--json"])
        return status, json.loads(capsys.readouterr().out)

    return call


async def _uncertain(home: Home, session: str) -> SessionSummary:
    async def look() -> SessionSummary | None:
        found = await home.client.sessions.list(statuses=(MusterStatus.UNCERTAIN,))
        return next((each for each in found.summaries if each.session_id == session), None)

    found = await eventually_async(look)
    assert found is not None
    return found


async def test_a_creation_is_tried_again_when_the_operator_says_so(
    simulated: Home, resolve: Resolve
) -> None:
    simulated.runtime.unknown["launch"] = 1
    creating = asyncio.create_task(simulated.create(session_id="unsure"))
    marked = await _uncertain(simulated, "unsure")
    assert marked.uncertain == "the reply to launch was lost"
    status, said = await resolve("uns", "--retry", "--operator", "ada")
    assert (status, said["decision"]) == (0, "retry")
    assert said["evidence"] == "the reply to launch was lost"
    assert (await creating).session_id == "unsure"
    assert (await simulated.run("unsure", "go on")).status is TurnStatus.COMPLETED
    status, said = await resolve("unsure", "--retry")
    assert (status, said["error"]["code"]) == (4, "resource_gone")


async def test_a_creation_is_given_up_when_the_operator_says_so(
    simulated: Home, resolve: Resolve
) -> None:
    simulated.runtime.unknown["launch"] = 1
    creating = asyncio.create_task(simulated.create(session_id="unsure"))
    await _uncertain(simulated, "unsure")
    status, said = await resolve("unsure", "--abandon")
    assert (status, said["decision"]) == (0, "abandon")
    with pytest.raises(TerminalUncertain, match="abandoned by an operator"):
        await creating


async def test_a_close_goes_on_when_the_operator_says_so(simulated: Home, resolve: Resolve) -> None:
    session = (await simulated.create()).session_id
    simulated.runtime.unknown["close"] = 1
    closing = asyncio.create_task(simulated.client.close(session))
    await _uncertain(simulated, session)
    status, _ = await resolve(session, "--retry")
    assert status == 0
    assert (await closing).session_id == session
    assert simulated.agent(session).gone
