"""A prompt against the end of a turn: whichever comes first, each accepted one starts once.

`MUSTER_RACES` says how many races are run, `MUSTER_SEED` repeats their timing.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
from collections import Counter
from dataclasses import dataclass, field

import pytest

from muster.domain.changes import PromptAccepted
from muster.domain.errors import ActiveTurnExists, TimedOut, WorkerUnavailable
from muster.domain.runtime import TurnEnded, TurnStarted
from muster.domain.session_document import PromptOperation
from tests.waiting import eventually
from tests.workflows.support import Home

pytestmark = pytest.mark.slow

RACES = int(os.environ.get("MUSTER_RACES", "200"))
SESSIONS = 10
JITTER_SECONDS = 0.06
"""About what an update, and what an end of a turn, takes to reach the document."""

PATIENCE_SECONDS = 120.0
"""A machine with much else to do lets workflow tasks time out, again and again."""

OPERATIONS: tuple[PromptOperation, ...] = (
    "turn.prompt",
    "turn.follow_up",
    "turn.abort_and_prompt",
)


@dataclass
class Race:
    """One session whose turns are ended at the moment when the next prompt arrives."""

    home: Home
    session: str
    rng: random.Random
    accepted: list[str] = field(default_factory=list)
    seen: Counter[str] = field(default_factory=Counter)
    sent: int = 0

    async def run(self, rounds: int) -> None:
        """Begin a turn, then race so many prompts against the end of whatever runs."""
        await self.send("turn.prompt")
        for _ in range(rounds):
            turn = await self.running()
            operation = self.rng.choice(OPERATIONS)
            _, taken = await asyncio.gather(
                self.end(turn, self.rng.uniform(0, JITTER_SECONDS)),
                self.send(operation, self.rng.uniform(0, JITTER_SECONDS)),
            )
            if not taken:
                await self.send("turn.follow_up")
        await self.end(await self.running(), 0)

    async def running(self) -> str:
        """The turn that was accepted last, once the agent runs it."""
        agent, last = self.home.agent(self.session), self.accepted[-1]
        await eventually(lambda: agent.running == last, within=PATIENCE_SECONDS, every=0.01)
        return last

    async def end(self, turn: str, after: float) -> None:
        """Have the agent end this turn by itself, unless it was interrupted before."""
        await asyncio.sleep(after)
        agent = self.home.agent(self.session)
        async with agent.news:
            if agent.running == turn:
                agent.end("end_turn")
                agent.news.notify_all()

    async def send(self, operation: PromptOperation, after: float = 0) -> bool:
        """Send a prompt whose turn runs until it is ended; False if it was refused."""
        await asyncio.sleep(after)
        self.sent += 1
        try:
            answer = await self.answer(operation, key=f"prompt {self.sent}")
        except ActiveTurnExists:
            self.seen["refused"] += 1
            return False
        self.accepted.append(answer.turn_id)
        self.seen["started at once" if answer.position == 0 else f"behind, {operation}"] += 1
        return True

    async def answer(self, operation: PromptOperation, key: str) -> PromptAccepted:
        """The answer to a prompt, asked for again under its key where none came."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            while True:
                with contextlib.suppress(TimedOut, WorkerUnavailable):
                    return await self.home.client.send(
                        self.session, "hold", operation=operation, key=key
                    )


async def test_a_prompt_that_meets_the_end_of_a_turn_starts_exactly_once(simulated: Home) -> None:
    seed = os.environ.get("MUSTER_SEED", "1")
    created = await asyncio.gather(*(simulated.create() for _ in range(SESSIONS)))
    races = [
        Race(simulated, each.session_id, random.Random(f"{seed}/{number}"))
        for number, each in enumerate(created)
    ]
    await asyncio.gather(*(race.run(RACES // SESSIONS) for race in races))
    for race in races:
        await simulated.client.wait(race.session, "idle", within=PATIENCE_SECONDS)
        log = simulated.agent(race.session).log
        started = [each.turn_id for each in log if isinstance(each, TurnStarted)]
        ended = [each.turn_id for each in log if isinstance(each, TurnEnded)]
        assert started == ended == race.accepted
        control = await simulated.control(race.session)
        assert (control.active, control.queued) == (None, 0)
        assert control.last_turn is not None
        assert control.last_turn.turn_id == race.accepted[-1]
    seen = sum((race.seen for race in races), Counter[str]())
    print(f"MUSTER_SEED={seed}: {dict(seen)}")
    for kind in (
        "refused",
        "started at once",
        "behind, turn.follow_up",
        "behind, turn.abort_and_prompt",
    ):
        assert seen[kind] > RACES // 50, seen
