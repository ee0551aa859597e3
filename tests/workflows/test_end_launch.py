"""What a given-up creation launched is ended, also when its agent is ready only later."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from temporalio.exceptions import ApplicationError
from temporalio.testing import ActivityEnvironment

from muster.activities.publishing import EventPublisher
from muster.activities.runtime import RuntimeActivities
from muster.domain.identifiers import remote_create_key
from muster.domain.runtime import Closed, LaunchRequest, LaunchState, RuntimeKind
from muster.runtimes.acp import layout
from muster.runtimes.acp.adapter import AcpRuntime
from muster.runtimes.acp.environment import module_command
from muster.runtimes.signing import generate_key
from muster.stores.documents.connection import Mongo, connect
from muster.stores.documents.content import Contents
from muster.stores.documents.public_events import PublicEvents
from muster.stores.documents.sessions import SessionSummaries
from muster.stores.files.archive import ArchiveStore
from muster.stores.files.journals import Journals
from muster.stores.files.private import PrivateTree
from muster.stores.files.projections import ProjectionStore
from muster.stores.files.receipts import ReceiptStore
from muster.stores.files.sessions import SessionStore
from muster.worker.agents import end_agents
from tests.waiting import eventually, eventually_async

NAMESPACE = "late"
SCRIPTED = module_command("muster.runtimes.acp.scripted_agent")


@pytest.fixture
async def root(tmp_path: Path) -> AsyncIterator[Path]:
    """A state root whose agents end with the test."""
    yield tmp_path / "state"
    await end_agents(tmp_path / "state")


async def test_an_agent_that_is_ready_after_its_launch_timed_out_is_ended_and_not_left_behind(
    root: Path, tmp_path: Path, mongo_uri: str
) -> None:
    tree, pair = PrivateTree(root), generate_key()
    receipts = ReceiptStore(tree)
    receipts.write_key(NAMESPACE, pair.verifier.key_id, pair.private_pem)
    go, pid = tmp_path / "go", tmp_path / "pid"
    script = f'echo $$ > {pid}; until [ -e {go} ]; do sleep 0.05; done; exec "$@"'
    request = LaunchRequest(
        runtime=RuntimeKind.ACP,
        namespace_id=NAMESPACE,
        session_id="s-1",
        remote_create_key=remote_create_key("a" * 64),
        cwd=str(tmp_path),
        command=("/bin/sh", "-c", script, "sh", *SCRIPTED),
        verifier=pair.verifier,
    )
    runtime = AcpRuntime(root, find_seconds=0.2)
    async with connect(mongo_uri, "late") as mongo:
        sessions = SessionStore(tree, ArchiveStore(tree))
        activities = RuntimeActivities(
            {RuntimeKind.ACP: runtime}, sessions, Contents(mongo), _publisher(tree, sessions, mongo)
        )
        launching = asyncio.create_task(runtime.launch(request))
        await eventually(lambda: pid.exists() and pid.read_text().strip())
        launching.cancel()
        receipts.remove_key(NAMESPACE, pair.verifier.key_id)

        async def ended() -> Closed | None:
            try:
                found: Closed = await ActivityEnvironment().run(activities.end_launch, request)
            except ApplicationError as error:
                if error.non_retryable:
                    raise
                return None
            return found

        assert await ended() is None
        go.touch()
        closed = await eventually_async(ended)
        assert closed == Closed()
    assert (await runtime.find_launch(request)).state == LaunchState.ENDED
    folder = root / layout.launch_folder(NAMESPACE, "s-1", request.remote_create_key)
    assert not layout.is_alive(folder)
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid.read_text()), 0)


def _publisher(tree: PrivateTree, sessions: SessionStore, mongo: Mongo) -> EventPublisher:
    return EventPublisher(
        sessions,
        Journals(tree),
        PublicEvents(mongo),
        ProjectionStore(tree),
        SessionSummaries(mongo),
    )
