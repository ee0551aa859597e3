"""Many sessions close at once while workers are killed: no event is lost, doubled or out of order.

`MUSTER_CLOSING` says how many sessions (60 without it), `MUSTER_SEED` repeats a run's choices. The
sessions are registered ones, so that each costs no process of its own.
"""

from __future__ import annotations

import asyncio
import os
import random
import time

import pytest

from muster.domain.creation import CreateSpec, RegisteredEndpoint
from muster.domain.runtime import Verifier
from tests.faults.harness import System
from tests.faults.oracles import nothing_left, sinks_agree, workflows_ended_well

pytestmark = [pytest.mark.faults, pytest.mark.slow]

SESSIONS = int(os.environ.get("MUSTER_CLOSING", "60"))
WORKERS = 2
LONGEST_PAUSE_SECONDS = 3.0
AT_ONCE = 12
WITHIN_SECONDS = 600.0


async def test_sessions_that_close_while_workers_are_killed_leave_every_event_once(
    system: System,
) -> None:
    seed = int(os.environ.get("MUSTER_SEED", random.randrange(1 << 32)))
    print(f"seed {seed}")
    chance = random.Random(seed)
    for _ in range(WORKERS):
        await system.start_worker()
    places = asyncio.Semaphore(AT_ONCE)
    await asyncio.gather(*(_register(system, number, places) for number in range(SESSIONS)))
    began = time.monotonic()
    closing = asyncio.gather(*(_close(system, session) for session in system.created))
    await _kill_both(system, chance, closing)
    await closing
    took = time.monotonic() - began
    events = await sinks_agree(system)
    for session, answer in system.closed.items():
        own = [each for each in events if each.session_id == session]
        assert [each.kind for each in own] == [
            "session.created",
            "session.closing",
            "session.closed",
        ]
        assert own[-1].seq == answer.last_journal_seq
    assert len(events) == 3 * SESSIONS
    await nothing_left(system)
    await workflows_ended_well(system)
    print(f"{SESSIONS} sessions closed in {took:.1f} s with {system.kills} workers killed")


async def _register(system: System, number: int, places: asyncio.Semaphore) -> None:
    session = f"many-{number:03}"
    launch = f"v2/{system.name}/sessions/{session}/runtime/{number:024x}"
    spec = CreateSpec(
        kind="register",
        session_id=session,
        cwd=str(system.folder / "work"),
        endpoint=RegisteredEndpoint(
            endpoint_url=f"acp:{launch}",
            endpoint_incarnation=f"inc-{number}",
            verifier=Verifier(key_id=f"{number:064x}", public_key="cHVibGlj"),
        ),
    )
    async with places:
        system.created[session] = await system.client.create(
            spec, key=session, within=WITHIN_SECONDS
        )


async def _close(system: System, session: str) -> None:
    incarnation = system.created[session].incarnation
    system.closed[session] = await system.client.close(
        session, incarnation=incarnation, within=WITHIN_SECONDS
    )


async def _kill_both(
    system: System, chance: random.Random, closing: asyncio.Future[list[None]]
) -> None:
    """Kill each worker at a random moment of the closing, and start another in its place."""
    for worker in list(system.workers):
        await asyncio.wait([closing], timeout=chance.random() * LONGEST_PAUSE_SECONDS)
        assert not closing.done(), "the sessions were closed before the workers were killed"
        worker.kill()
        await system.start_worker()
