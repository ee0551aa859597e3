"""Servers killed in the middle of a turn: the session goes on when they are back."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from muster.devstack import Stack, StackOptions, TemporalChoice
from tests.faults.harness import AGENT, PATIENCE_SECONDS, System
from tests.faults.oracles import check
from tests.waiting import eventually

pytestmark = pytest.mark.faults


@dataclass
class OwnServers:
    """Servers with their data on disk, which the supervisor starts again when they die."""

    stack: Stack
    system: System

    async def kill(self, name: str) -> None:
        """End a server as a power cut would, and return once another process serves its data."""
        before = self._pid(name)
        assert before is not None
        os.kill(before, signal.SIGKILL)
        await eventually(lambda: self._pid(name) not in (None, before), within=PATIENCE_SECONDS)

    def _pid(self, name: str) -> int | None:
        found = [each.pid for each in self.stack.describe().processes if each.name == name]
        return found[0] if found else None


@pytest.fixture
async def servers(tmp_path: Path, plain_environ: dict[str, str]) -> AsyncIterator[OwnServers]:
    """A system on servers of its own, with a worker."""
    options = StackOptions(
        data_dir=tmp_path / "servers",
        temporal=TemporalChoice.SERVER,
        worker=False,
        ui=False,
        temporal_port=0,
        mongo_port=0,
        environ=plain_environ,
    )
    async with Stack(options) as stack:
        info = stack.describe()
        assert info.temporal is not None
        assert info.mongo is not None
        folder = tmp_path / "system"
        async with System.on(
            info.temporal.address, info.mongo.uri, plain_environ, folder
        ) as system:
            await system.start_worker()
            yield OwnServers(stack, system)


async def test_a_session_goes_on_after_each_server_was_killed_in_the_middle_of_a_turn(
    servers: OwnServers,
) -> None:
    system = servers.system
    session = (await system.create()).session_id
    lines = {AGENT: 1}
    for name in ("temporal", "mongo"):
        await system.prompt(session, name, system.script(name, until=name))
        await system.left(name)
        await servers.kill(name)
        system.release(name)
        await system.left(f"{name} went on")
        await system.idle(session)
        lines |= {name: 1, f"{name} went on": 1}
    await check(system)
    assert system.evidence() == lines


async def test_a_prompt_on_its_way_while_both_servers_die_is_run_once(
    servers: OwnServers,
) -> None:
    system = servers.system
    session = (await system.create()).session_id
    sending = asyncio.create_task(system.prompt(session, "k", system.script("k")))
    await asyncio.gather(servers.kill("temporal"), servers.kill("mongo"))
    await asyncio.wait_for(sending, PATIENCE_SECONDS)
    await system.idle(session)
    await check(system)
    assert system.evidence() == {AGENT: 1, "k": 1}
