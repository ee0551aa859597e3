"""Servers, one worker process and a client, for one bench."""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
import tempfile
import time
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from temporalio.client import Client
from temporalio.contrib.pydantic import pydantic_data_converter

from bench.bare import bare_queues
from bench.common import RESULTS
from bench.probe import Snapshot, Span
from bench.processor import processor_ms
from muster.client.client import MusterClient
from muster.devstack import Stack, StackOptions, TemporalChoice
from muster.worker.agents import end_agents
from muster.worker.settings import WorkerSettings

RuntimeName = Literal["instant", "acp"]

PATIENCE_SECONDS = 120.0
RUST_SERVER = "secantusd-rs"
_POLL_SECONDS = 0.1
_REPOSITORY = Path(__file__).resolve().parent.parent


@dataclass
class BenchWorker:
    """The worker process."""

    process: asyncio.subprocess.Process
    spans: list[Span] = field(default_factory=list)
    """All that were handed over so far."""

    async def snapshot(self) -> Snapshot:
        """The counts now."""
        reading, writing = self.process.stdout, self.process.stdin
        assert reading is not None
        assert writing is not None
        writing.write(b"\n")
        await writing.drain()
        line = await reading.readline()
        if not line:
            raise RuntimeError("the bench's worker ended; its log is beside the stage's data")
        snapshot = Snapshot.model_validate_json(line)
        self.spans += snapshot.spans
        return snapshot


@dataclass(frozen=True)
class Servers:
    """Where the servers are, and their processes by name where they are known."""

    temporal: str
    mongo_uri: str
    pids: dict[str, int] = field(default_factory=dict)


@dataclass
class Stage:
    """What a bench works with."""

    folder: Path
    settings: WorkerSettings
    temporal: Client
    client: MusterClient
    worker: BenchWorker
    servers: dict[str, int]
    """Process ids by name."""

    @property
    def bare_queues(self) -> tuple[str, str]:
        """The queues of the bare workflows and of their regular activities."""
        return bare_queues(self.settings)

    def processor(self) -> dict[str, float]:
        """Milliseconds of processor time so far, by process."""
        pids = {"worker": self.worker.process.pid, **self.servers}
        return {name: processor_ms(pid) for name, pid in pids.items()}

    async def until(self, done: Callable[[list[Span]], bool], doing: str) -> None:
        """Return once the worker's spans are as awaited."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while True:
            await self.worker.snapshot()
            if done(self.worker.spans):
                return
            if time.monotonic() > deadline:
                raise TimeoutError(f"{doing} took longer than {PATIENCE_SECONDS:.0f} s")
            await asyncio.sleep(_POLL_SECONDS)


def plain_environ() -> dict[str, str]:
    """This process's environment without a setting that names a server."""
    return {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("TEMPORAL_", "MUSTER_"))
    }


def faster_mongo() -> dict[str, str]:
    """The setting for SecantusDB's server in Rust, if it is on PATH.

    Python's takes several times as long for a command, which is no cost of Muster's.
    """
    return {"MUSTER_SECANTUSD": RUST_SERVER} if shutil.which(RUST_SERVER) else {}


@asynccontextmanager
async def open_stage(runtime: RuntimeName) -> AsyncIterator[Stage]:
    """Servers with their data on disk and a worker with this runtime; all of it ends after."""
    folder = _new_folder()
    options = StackOptions(
        data_dir=folder,
        temporal=TemporalChoice.SERVER,
        worker=False,
        ui=False,
        temporal_port=0,
        ui_port=0,
        mongo_port=0,
        environ={**plain_environ(), **faster_mongo()},
    )
    try:
        async with Stack(options) as stack:
            info = stack.describe()
            assert info.temporal is not None
            assert info.mongo is not None
            servers = Servers(
                info.temporal.address,
                info.mongo.uri,
                {each.name: each.pid for each in info.processes},
            )
            async with open_stage_on(servers, folder, runtime) as stage:
                yield stage
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _new_folder() -> Path:
    """On the disk that a state root would be on; not in memory."""
    RESULTS.mkdir(parents=True, exist_ok=True)
    return Path(tempfile.mkdtemp(prefix="stage-", dir=RESULTS)).absolute()


@asynccontextmanager
async def open_stage_on(
    servers: Servers, folder: Path, runtime: RuntimeName
) -> AsyncIterator[Stage]:
    """The same on servers that run already."""
    name = f"b{uuid.uuid4().hex[:8]}"
    settings = WorkerSettings(
        namespace=name,
        root=name,
        runtime_host=name,
        mongo_uri=servers.mongo_uri,
        mongo_database="muster",
        state_root=folder / "state",
        timeout_seconds=PATIENCE_SECONDS,
    )
    await asyncio.to_thread((folder / "work").mkdir)
    temporal = await Client.connect(servers.temporal, data_converter=pydantic_data_converter)
    async with AsyncExitStack() as stack:
        client = await stack.enter_async_context(MusterClient(settings, temporal=temporal))
        stack.push_async_callback(end_agents, settings.state_root)
        worker = await _start_worker(stack, settings, servers.temporal, runtime)
        yield Stage(folder, settings, temporal, client, worker, servers.pids)


async def _start_worker(
    stack: AsyncExitStack, settings: WorkerSettings, address: str, runtime: RuntimeName
) -> BenchWorker:
    given = {
        "TEMPORAL_ADDRESS": address,
        "TEMPORAL_CONFIG_FILE": os.devnull,
        "MUSTER_MONGO_URI": settings.mongo_uri or "",
        "MUSTER_MONGO_DATABASE": settings.mongo_database,
        "MUSTER_NAMESPACE": settings.namespace,
        "MUSTER_ROOT": settings.root,
        "MUSTER_RUNTIME_HOST": settings.runtime_host,
        "MUSTER_STATE_ROOT": str(settings.state_root),
    }
    log = stack.enter_context((settings.state_root.parent / "worker.log").open("ab"))
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "bench.worker",
        runtime,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=log,
        env={**plain_environ(), **given},
        cwd=_REPOSITORY,
        limit=1 << 26,
        start_new_session=True,
    )
    stack.push_async_callback(_end, process)
    assert process.stdout is not None
    if await process.stdout.readline() != b"ready\n":
        raise RuntimeError(f"the bench's worker didn't start: {_tail(log.name)}")
    return BenchWorker(process)


async def _end(process: asyncio.subprocess.Process) -> None:
    assert process.stdin is not None
    process.stdin.close()
    try:
        async with asyncio.timeout(20):
            await process.wait()
    except TimeoutError:
        process.kill()
        await process.wait()


def _tail(log: str | Path) -> str:
    return Path(log).read_text()[-2_000:]
