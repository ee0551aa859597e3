"""Events and the readers' copy follow when they can; commands don't wait for them."""

from __future__ import annotations

import asyncio
from functools import partial

from muster.domain.changes import PromptAccepted
from muster.domain.turn_model import TurnStatus
from muster.stores.documents.connection import connect
from muster.stores.documents.public_events import PublicEvents
from tests.waiting import eventually_async
from tests.workflows.mongo_gate import MongoGate
from tests.workflows.support import Home

COMMAND_SECONDS = 3.0
"""How long a command may take while MongoDB is away."""


async def test_prompts_go_on_while_mongodb_is_away_and_their_events_follow(
    behind_gate: Home, gate: MongoGate, mongo_uri: str
) -> None:
    session = (await behind_gate.create()).session_id
    send = partial(behind_gate.client.send, session, operation="turn.follow_up")
    await gate.shut()
    sent: list[PromptAccepted] = []
    for n in range(3):
        async with asyncio.timeout(COMMAND_SECONDS):
            sent.append(await send(f"step {n}"))

    async def all_ran() -> bool:
        control = await behind_gate.control(session)
        return control.active is None and control.queued == 0

    await eventually_async(all_ran, within=30)
    assert behind_gate.agent(session).prompts == ["step 0", "step 1", "step 2"]
    assert (await behind_gate.control(session)).unacknowledged > 0
    await gate.open()

    async def caught_up() -> bool:
        return (await behind_gate.control(session)).unacknowledged == 0

    await eventually_async(caught_up, within=45)
    last = await behind_gate.ended(session, sent[-1].turn_id)
    assert last.status is TurnStatus.COMPLETED
    async with connect(mongo_uri, behind_gate.settings.mongo_database) as mongo:
        events = await PublicEvents(mongo).read(behind_gate.settings.namespace, 0, 100)
    assert [each.seq for each in events] == list(range(1, len(events) + 1))
    assert sum(each.kind == "turn.completed" for each in events) == 3
