"""What the tests of workflows share: workers in this process, and a client of their sessions."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

from temporalio.api.enums.v1 import EventType
from temporalio.client import Client, WorkflowHistory
from temporalio.testing import WorkflowEnvironment

from muster.client.client import MusterClient
from muster.domain.control import ControlState
from muster.domain.creation import CreateAnswer, CreateSpec
from muster.domain.identifiers import session_workflow_id
from muster.domain.runtime import RuntimeKind
from muster.domain.turn_model import TERMINAL_TURN
from muster.domain.view import QuestionView, TurnView
from muster.stores.documents.connection import connect
from muster.worker.agents import end_agents
from muster.worker.settings import WorkerSettings
from muster.worker.wiring import assemble, build_workers
from tests.waiting import eventually_async
from tests.workflows.simulated_runtime import Agent, SimulatedRuntime

FREELY = "#!muster no-permission\n"
"""Begins a prompt that the scripted agent runs without asking."""


@dataclass
class Home:
    """A namespace with its workers, and a client of it."""

    settings: WorkerSettings
    temporal: Client
    client: MusterClient
    cwd: Path
    runtime: SimulatedRuntime = field(default_factory=SimulatedRuntime)
    """Empty where the acp runtime is used."""

    @property
    def namespace_folder(self) -> Path:
        """Where everything of the namespace stands."""
        return self.settings.state_root / "v2" / self.settings.namespace

    def spec(self, **fields: Any) -> CreateSpec:
        """A session in the home's working directory."""
        return CreateSpec(**{"cwd": str(self.cwd), **fields})

    async def create(self, key: str | None = None, **fields: Any) -> CreateAnswer:
        """Create a session as `spec` has it."""
        return await self.client.create(self.spec(**fields), key=key)

    def agent(self, session: str) -> Agent:
        """The simulated agent of a session."""
        return self.runtime.agent(session)

    async def control(self, session: str) -> ControlState:
        """What the session's workflow knows, asked of it."""
        return await self.client.control(session)

    async def question(self, session: str) -> QuestionView:
        """The session's next open question."""

        async def look() -> QuestionView | None:
            return next(iter(await self.client.sessions.questions(session)), None)

        found = await eventually_async(look)
        assert found is not None
        return found

    async def ended(self, session: str, turn: str) -> TurnView:
        """The turn, once it has ended and readers can see that."""

        async def look() -> TurnView | None:
            found = await self.client.sessions.turn(session, turn)
            return found if found and found.status in TERMINAL_TURN else None

        found = await eventually_async(look)
        assert found is not None
        return found

    async def run(self, session: str, text: str, **options: Any) -> TurnView:
        """Send a prompt and wait for the end of its turn."""
        accepted = await self.client.send(session, text, **options)
        return await self.ended(session, accepted.turn_id)

    async def runs_turn(self, session: str, turn: str) -> None:
        """Return once the runtime has taken this turn's prompt."""

        async def look() -> bool:
            active = (await self.control(session)).active
            return active is not None and active.turn_id == turn and active.acknowledged

        await eventually_async(look)

    async def history(self, workflow_id: str, run_id: str | None = None) -> WorkflowHistory:
        """The history of a workflow's last run, or of the named one."""
        return await self.temporal.get_workflow_handle(workflow_id, run_id=run_id).fetch_history()

    async def session_history(self, session: str, run_id: str | None = None) -> WorkflowHistory:
        """The history of a session's workflow."""
        return await self.history(session_workflow_id(self.settings.namespace, session), run_id)


def event_names(history: WorkflowHistory) -> list[str]:
    """The types of a history's events, in short."""
    return [EventType.Name(each.event_type).removeprefix("EVENT_TYPE_") for each in history.events]


def settings_of(folder: Path, mongo_uri: str, **fields: Any) -> WorkerSettings:
    """Settings with a namespace and queues that nobody else has."""
    name = f"t{uuid.uuid4().hex[:12]}"
    given = {
        "namespace": name,
        "root": name,
        "runtime_host": name,
        "mongo_uri": mongo_uri,
        "mongo_database": "workflows",
        "state_root": folder / "state",
        "graceful_seconds": 0,
        "timeout_seconds": 30,
    }
    return WorkerSettings(**{**given, **fields})


@asynccontextmanager
async def open_home(
    temporal: Client,
    settings: WorkerSettings,
    cwd: Path,
    runtime: SimulatedRuntime | None = None,
) -> AsyncIterator[Home]:
    """The settings' workers and a client; the agents that they started end with the block.

    Args:
        runtime: Instead of the acp runtime.
    """
    await asyncio.to_thread(cwd.mkdir, exist_ok=True)
    async with AsyncExitStack() as stack:
        assert settings.mongo_uri is not None
        mongo = await stack.enter_async_context(
            connect(settings.mongo_uri, settings.mongo_database)
        )
        client = await stack.enter_async_context(MusterClient(settings, temporal=temporal))
        parts = assemble(settings, mongo, {RuntimeKind.ACP: runtime} if runtime else None)
        stack.callback(parts.close)
        stack.push_async_callback(end_agents, settings.state_root)
        for worker in build_workers(temporal, settings, parts):
            await stack.enter_async_context(worker)
        yield Home(settings, temporal, client, cwd, runtime or SimulatedRuntime())


async def minutes_pass(server: WorkflowEnvironment, minutes: int) -> None:
    """Let time pass a little at a time: each retry on the way is really made."""
    for _ in range(4 * minutes):
        await server.sleep(timedelta(seconds=15))
