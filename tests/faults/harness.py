"""The running system under faults: real servers, worker processes to kill, agents that count.

Each `System` has its own state root, Muster namespace and task queues, so that systems run side
by side on the servers of the test run. What an agent really did is evidence in a file: a prompt's
script and an agent's start each append a line.
"""

from __future__ import annotations

import contextlib
import fcntl
import multiprocessing
import os
import signal
import uuid
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerContext, ForkServerProcess
from pathlib import Path
from typing import Self, TypeVar

from temporalio.client import Client
from temporalio.contrib.pydantic import pydantic_data_converter

from muster.client import ClientSettings, MusterClient
from muster.domain.changes import AnswerClaimed, OperationDone, PromptAccepted
from muster.domain.closing import CloseAnswer
from muster.domain.contract import Contract
from muster.domain.control import ControlState
from muster.domain.creation import CreateAnswer, CreateSpec
from muster.domain.errors import MusterError
from muster.domain.session_document import PromptOperation
from muster.runtimes.acp import layout
from muster.runtimes.acp.environment import module_command
from muster.runtimes.acp.scripted_agent import NO_PERMISSION
from muster.stores.documents.connection import Mongo, connect
from muster.stores.documents.indexes import ensure_indexes
from muster.worker.agents import end_agents
from tests.faults import worker_process
from tests.waiting import eventually, eventually_async

T = TypeVar("T", bound=Contract)

DATABASE = "muster_faults"

PATIENCE_SECONDS = 180.0
"""For anything that has to recover: several times the longest timeout on the way."""

AGENT = "agent"
"""The line that each start of an agent leaves."""


@cache
def _fork_server() -> ForkServerContext:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([worker_process.__name__])
    return context


class WorkerProcess:
    """One worker process."""

    def __init__(self, environ: Mapping[str, str], log: Path, ready_file: Path) -> None:
        self.log = log
        self._ready_file = ready_file
        self._orders, theirs = _fork_server().Pipe()
        settings = {**environ, "MUSTER_READY_FILE": str(ready_file)}
        self._process: ForkServerProcess = _fork_server().Process(
            target=worker_process.run, args=(settings, log, theirs), daemon=True
        )
        self._process.start()
        theirs.close()

    @property
    def alive(self) -> bool:
        """Whether the process is there, running or stopped."""
        return self._process.is_alive()

    async def ready(self) -> Self:
        """Return once it polls its queues."""
        await eventually(
            lambda: self._ready_file.exists() or not self.alive, within=PATIENCE_SECONDS
        )
        assert self.alive, f"the worker ended by itself: {self.log.read_text()[-2000:]}"
        return self

    async def arm(self, faults: str) -> None:
        """Arm fault points in the running worker, as `MUSTER_FAULTS` would."""
        orders: Connection = self._orders
        orders.send(faults)
        await eventually(orders.poll)
        orders.recv()

    async def died(self, within: float = PATIENCE_SECONDS) -> None:
        """Return once a kill has ended it; it may not have ended in any other way."""
        await eventually(lambda: not self.alive, within=within)
        assert self._process.exitcode == -signal.SIGKILL, self.log.read_text()[-2000:]

    async def stopped(self, within: float = PATIENCE_SECONDS) -> None:
        """Return once a SIGSTOP has frozen it."""
        await eventually(lambda: self._state() == "T", within=within)

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to a process that is there."""
        assert self._process.pid is not None
        os.kill(self._process.pid, number)

    def kill(self) -> None:
        """End it as a power cut would, and wait until the kernel has."""
        if self.alive:
            self._process.kill()
        self._process.join(PATIENCE_SECONDS)

    def _state(self) -> str:
        stat = Path(f"/proc/{self._process.pid}/stat").read_text()
        return stat.rpartition(")")[2].split()[0]


@dataclass(frozen=True)
class Acknowledged:
    """An answer that a caller got, and how it asks again under its key."""

    session: str
    answer: Contract
    again: Callable[[], Awaitable[Contract]]


@dataclass
class System:
    """One state root with its workers, sessions and agents."""

    folder: Path
    name: str
    """Of the root, the host and Muster's namespace."""
    environ: dict[str, str]
    client: MusterClient
    temporal: Client
    mongo: Mongo
    workers: list[WorkerProcess] = field(default_factory=list)
    created: dict[str, CreateAnswer] = field(default_factory=dict)
    closed: dict[str, CloseAnswer] = field(default_factory=dict)
    acknowledged: list[Acknowledged] = field(default_factory=list)

    @classmethod
    @contextlib.asynccontextmanager
    async def on(
        cls, address: str, mongo_uri: str, environ: Mapping[str, str], folder: Path
    ) -> AsyncIterator[Self]:
        """A system on these servers; nothing of it is left running."""
        name = f"f{uuid.uuid4().hex[:12]}"
        settings = ClientSettings(
            mongo_uri=mongo_uri,
            mongo_database=DATABASE,
            namespace=name,
            root=name,
            runtime_host=name,
            timeout_seconds=PATIENCE_SECONDS,
        )
        temporal = await Client.connect(address, data_converter=pydantic_data_converter)
        (folder / "work").mkdir(parents=True)
        async with (
            MusterClient(settings, temporal=temporal) as client,
            connect(mongo_uri, DATABASE) as mongo,
        ):
            await ensure_indexes(mongo)
            system = cls(folder, name, {}, client, temporal, mongo)
            system.environ = {**environ, **system._worker_settings(address, mongo_uri)}
            try:
                yield system
            finally:
                await system.end()

    def _worker_settings(self, address: str, mongo_uri: str) -> dict[str, str]:
        return {
            "TEMPORAL_ADDRESS": address,
            "TEMPORAL_CONFIG_FILE": os.devnull,
            "MUSTER_MONGO_URI": mongo_uri,
            "MUSTER_MONGO_DATABASE": DATABASE,
            "MUSTER_ROOT": self.name,
            "MUSTER_RUNTIME_HOST": self.name,
            "MUSTER_STATE_ROOT": str(self.state_root),
        }

    @property
    def state_root(self) -> Path:
        """Where the sessions stand."""
        return self.folder / "state"

    # Workers

    async def start_worker(self) -> WorkerProcess:
        """Another worker, once it polls."""
        number = len(self.workers)
        worker = WorkerProcess(
            self.environ, self.folder / f"worker{number}.log", self.folder / f"ready{number}"
        )
        self.workers.append(worker)
        return await worker.ready()

    @property
    def kills(self) -> int:
        """How many workers have died."""
        return sum(not each.alive for each in self.workers)

    async def end(self) -> None:
        """End every worker, then every agent."""
        for worker in self.workers:
            worker.kill()
        await end_agents(self.state_root)

    def locked(self) -> list[Path]:
        """The folders whose lock somebody holds: those of sessions, and the journal's."""
        folders = (*self.state_root.glob("v2/*/sessions/*"), *self.state_root.glob("v2/*/events"))
        return [each for each in folders if _is_locked(each)]

    def living_agents(self) -> int:
        """How many launches of the root have a process."""
        found = self.state_root.glob(f"v2/*/sessions/*/runtime/*/{layout.LOCK}")
        return sum(layout.is_alive(each.parent) for each in found)

    # What agents are told, and what they did

    def script(self, key: str, *, ask: bool = False, until: str | None = None) -> str:
        """A prompt that leaves a line with its key.

        Args:
            ask: The agent asks for permission first.
            until: The name of a file that the script waits for after its line; it leaves
                `<key> went on` then.
        """
        lines = [] if ask else [NO_PERMISSION]
        lines.append(f"echo {key} >> '{self._evidence}'")
        if until is not None:
            lines.append(f"until [ -e '{self.folder / until}' ]; do sleep 0.1; done")
            lines.append(f"echo '{key} went on' >> '{self._evidence}'")
        return "\n".join(lines)

    def release(self, name: str) -> None:
        """Make the file that scripts wait for."""
        (self.folder / name).touch()

    def evidence(self) -> Counter[str]:
        """How often each line was left."""
        if not self._evidence.exists():
            return Counter()
        return Counter(self._evidence.read_text().splitlines())

    async def left(self, line: str) -> None:
        """Return once a line is there."""
        await eventually(lambda: self.evidence()[line], within=PATIENCE_SECONDS)

    @property
    def _evidence(self) -> Path:
        return self.folder / "evidence"

    # Commands; what was answered is kept for the oracles

    async def create(self, key: str = "create") -> CreateAnswer:
        """Create a session whose agent leaves a line when it starts."""
        counted = ("/bin/sh", "-c", 'echo agent >> "$0"; exec "$@"', str(self._evidence))
        spec = CreateSpec(
            cwd=str(self.folder / "work"),
            command=(*counted, *module_command("muster.runtimes.acp.scripted_agent")),
        )
        answer = await self._call("", lambda: self.client.create(spec, key=key))
        self.created[answer.session_id] = answer
        return answer

    async def prompt(
        self, session: str, key: str, text: str, operation: PromptOperation = "turn.prompt"
    ) -> PromptAccepted:
        """Hand a prompt over under its key."""
        return await self._call(
            session, lambda: self.client.send(session, text, operation=operation, key=key)
        )

    async def answer(self, session: str, question: str, option: str, key: str) -> AnswerClaimed:
        """Answer a question under a key."""
        return await self._call(
            session, lambda: self.client.answer(session, question, option, key=key)
        )

    async def stop(self, session: str, key: str) -> OperationDone:
        """Stop a session's turn under a key."""
        return await self._call(session, lambda: self.client.stop(session, key=key))

    async def close(self, session: str) -> CloseAnswer:
        """Close a session."""
        incarnation = self.created[session].incarnation
        answer = await self._call(
            "", lambda: self.client.close(session, incarnation=incarnation, force=True)
        )
        self.closed[session] = answer
        return answer

    async def _call(self, session: str, ask: Callable[[], Awaitable[T]]) -> T:
        answer = await ask()
        self.acknowledged.append(Acknowledged(session, answer, ask))
        return answer

    # Waiting

    async def question(self, session: str) -> str:
        """The session's open question, once there is one."""

        async def look() -> str | None:
            control = await self._control(session)
            return control.questions[0].question_id if control and control.questions else None

        found = await eventually_async(look, within=PATIENCE_SECONDS)
        assert found is not None
        return found

    async def idle(self, session: str) -> ControlState:
        """The session's state once no turn runs or waits and everything is published."""

        async def look() -> ControlState | None:
            control = await self._control(session)
            if control is None:
                return None
            busy = control.active or control.queued or control.claims or control.unacknowledged
            return None if busy else control

        found = await eventually_async(look, within=PATIENCE_SECONDS, every=0.1)
        assert found is not None
        return found

    async def _control(self, session: str) -> ControlState | None:
        """The session's state, or None while nobody can say."""
        try:
            return await self.client.control(session)
        except MusterError:
            return None


def _is_locked(folder: Path) -> bool:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False
