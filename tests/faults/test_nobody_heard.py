"""A prompt on disk that worker, server and caller all died of: found, and run exactly once."""

from __future__ import annotations

import asyncio
import contextlib
from datetime import timedelta
from pathlib import Path

import pytest
from temporalio.client import Client
from temporalio.service import RPCError

from muster.client.care import SessionCare
from muster.domain.contracts import SessionRef
from muster.stores.files.archive import ArchiveStore
from muster.stores.files.private import PrivateTree
from muster.stores.files.sessions import SessionStore
from tests.faults.harness import AGENT
from tests.faults.oracles import check
from tests.faults.own_servers import OwnServers
from tests.waiting import eventually_async

pytestmark = pytest.mark.faults


async def _answers(temporal: Client) -> bool:
    try:
        return await temporal.service_client.check_health(timeout=timedelta(seconds=1))
    except RPCError:
        return False


async def test_a_prompt_that_nobody_was_answered_and_no_workflow_knows_of_runs_once(
    tmp_path: Path, plain_environ: dict[str, str]
) -> None:
    async with (
        OwnServers.started(tmp_path / "servers", plain_environ) as servers,
        servers.system(tmp_path / "system") as system,
    ):
        worker = await system.start_worker()
        created = await system.create()
        session = created.session_id
        await system.idle(session)
        await worker.arm("session.committed=kill")
        caller = asyncio.create_task(system.prompt(session, "k", system.script("k")))
        await worker.died()
        async with servers.without("temporal"):
            caller.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await caller
        await eventually_async(lambda: _answers(system.temporal))
        await system.start_worker()

        tree = PrivateTree(system.state_root)
        document = SessionStore(tree, ArchiveStore(tree)).require(
            SessionRef(
                namespace_id=created.namespace_id,
                session_id=session,
                incarnation=created.incarnation,
            )
        )
        assert document.canonical.queue.active_turn_id is not None
        assert (await system.client.control(session)).active is None
        assert system.evidence() == {AGENT: 1}

        care = SessionCare(system.client)
        assert (await care.reconcile()).session_ids == (session,)
        await system.idle(session)
        assert system.evidence() == {AGENT: 1, "k": 1}
        again = await system.prompt(session, "k", system.script("k"))
        assert (again.turn_id, again.repeated) == (document.canonical.queue.active_turn_id, True)
        (report,) = (await system.client.sessions.show(session)).reports
        assert (report.turn_id, report.status) == (again.turn_id, "completed")
        await check(system)
        assert system.evidence() == {AGENT: 1, "k": 1}
