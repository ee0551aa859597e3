"""A whole stack for the command and the client, and a way to call the command in this process."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator, Callable, Coroutine
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from muster.client import ClientSettings, MusterClient, stack_servers
from muster.client.local_stack import StackInfo
from muster.client.main import run
from muster.devstack import Stack, StackOptions


@dataclass(frozen=True, slots=True)
class Said:
    """What a call of the command came to."""

    status: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """Standard output as one JSON object."""
        return json.loads(self.out)

    @property
    def lines(self) -> list[Any]:
        """Standard output as one JSON object on each line."""
        return [json.loads(line) for line in self.out.splitlines()]


Command = Callable[..., Coroutine[Any, Any, Said]]


@pytest.fixture(scope="session")
async def stack(
    tmp_path_factory: pytest.TempPathFactory, plain_environ: dict[str, str]
) -> AsyncIterator[StackInfo]:
    """A running stack with a worker."""
    options = StackOptions(
        data_dir=tmp_path_factory.mktemp("client") / ".muster",
        ui=False,
        in_memory=True,
        temporal_port=0,
        mongo_port=0,
        environ={**plain_environ, "MUSTER_GRACEFUL_SECONDS": "1"},
    )
    async with Stack(options, print) as running:
        yield running.describe()


@pytest.fixture
def no_settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> pytest.MonkeyPatch:
    """A process without settings, in a folder without a stack."""
    for name in list(os.environ):
        if name.startswith(("TEMPORAL_", "MUSTER_")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("TEMPORAL_CONFIG_FILE", os.devnull)
    monkeypatch.chdir(tmp_path)
    return monkeypatch


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str], no_settings: pytest.MonkeyPatch) -> Command:
    """Call `muster` in this process: `await command("session", "ls")`."""

    async def call(*arguments: str) -> Said:
        capsys.readouterr()
        status = await asyncio.to_thread(run, list(arguments))
        said = capsys.readouterr()
        return Said(status, said.out, said.err)

    return call


@pytest.fixture
def muster(command: Command, stack: StackInfo, no_settings: pytest.MonkeyPatch) -> Command:
    """Call `muster` against the stack."""
    assert stack.temporal is not None
    assert stack.mongo is not None
    no_settings.setenv("TEMPORAL_ADDRESS", stack.temporal.address)
    no_settings.setenv("MUSTER_MONGO_URI", stack.mongo.uri)
    return command


@pytest.fixture
async def client(stack: StackInfo) -> AsyncIterator[MusterClient]:
    """A client of the stack."""
    async with MusterClient(ClientSettings(), servers=stack_servers(stack, {})) as found:
        yield found


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A working directory for a session."""
    made = tmp_path / "work"
    made.mkdir()
    return made
