"""Homes of the tests of workflows; each has a namespace, queues and a state root of its own."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from temporalio.client import Client
from temporalio.testing import WorkflowEnvironment

from tests.workflows.mongo_gate import MongoGate
from tests.workflows.simulated_runtime import SimulatedRuntime
from tests.workflows.support import Home, open_home, settings_of


@pytest.fixture
async def home(temporal: Client, mongo_uri: str, tmp_path: Path) -> AsyncIterator[Home]:
    """The full server and the scripted agent: everything is real."""
    async with open_home(temporal, settings_of(tmp_path, mongo_uri), tmp_path / "work") as opened:
        yield opened


@pytest.fixture
async def simulated(temporal: Client, mongo_uri: str, tmp_path: Path) -> AsyncIterator[Home]:
    """The full server and agents in memory."""
    settings = settings_of(tmp_path, mongo_uri)
    async with open_home(temporal, settings, tmp_path / "work", SimulatedRuntime()) as opened:
        yield opened


@pytest.fixture
async def forgetful(simulated: Home, time_skipping: WorkflowEnvironment) -> AsyncIterator[Home]:
    """The same sessions on a server that knows nothing of them, as after its retention."""
    settings = simulated.settings.model_copy(update={"cached_workflows": 0})
    async with open_home(
        time_skipping.client, settings, simulated.cwd, simulated.runtime
    ) as opened:
        yield opened


@pytest.fixture
async def skipping(
    time_skipping: WorkflowEnvironment, mongo_uri: str, tmp_path: Path
) -> AsyncIterator[Home]:
    """The server in which time passes at once, and agents in memory."""
    settings = settings_of(tmp_path, mongo_uri, cached_workflows=0)
    async with open_home(
        time_skipping.client, settings, tmp_path / "work", SimulatedRuntime()
    ) as opened:
        yield opened


@pytest.fixture
async def uncached(temporal: Client, mongo_uri: str, tmp_path: Path) -> AsyncIterator[Home]:
    """The full server, agents in memory, and a worker that replays at every task."""
    settings = settings_of(tmp_path, mongo_uri, cached_workflows=0)
    async with open_home(temporal, settings, tmp_path / "work", SimulatedRuntime()) as opened:
        yield opened


@pytest.fixture
async def gate(mongo_uri: str) -> AsyncIterator[MongoGate]:
    """The way to MongoDB, which a test may shut."""
    way = MongoGate(mongo_uri)
    await way.open()
    try:
        yield way
    finally:
        await way.shut()


@pytest.fixture
async def behind_gate(temporal: Client, gate: MongoGate, tmp_path: Path) -> AsyncIterator[Home]:
    """The full server, agents in memory, and MongoDB behind the gate."""
    settings = settings_of(tmp_path, gate.uri)
    async with open_home(temporal, settings, tmp_path / "work", SimulatedRuntime()) as opened:
        yield opened
