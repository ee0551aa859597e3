"""Workers killed at random moments, with five sessions in flight.

`MUSTER_KILLS` says how many kills (12 without it), `MUSTER_SEED` repeats a run's choices.
"""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import Callable

import pytest

from tests.faults.harness import AGENT, System
from tests.faults.oracles import check

pytestmark = [pytest.mark.faults, pytest.mark.slow]

SESSIONS = 5
WORKERS = 2
KILLS = int(os.environ.get("MUSTER_KILLS", "12"))
LONGEST_PAUSE_SECONDS = 4.0


class Caller:
    """Somebody who keeps one session busy and knows what must have been run."""

    def __init__(self, system: System, name: str, chance: random.Random) -> None:
        self.system = system
        self.name = name
        self.expected: dict[str, tuple[int, ...]] = {}
        """The numbers of times that each line may be there."""
        self._chance = chance
        self._session = ""

    async def work(self, stopped: Callable[[], bool]) -> None:
        """Create a session and use it until told to stop."""
        self._session = (await self.system.create(f"create {self.name}")).session_id
        number = 0
        while not stopped():
            number += 1
            verb = self._chance.choice([self._plain, self._asked, self._followed, self._aborted])
            await verb(f"{self.name}-{number}")
            await self.system.idle(self._session)

    async def _prompt(self, key: str, text: str, times: tuple[int, ...] = (1,)) -> None:
        await self.system.prompt(self._session, key, text)
        self.expected[key] = times

    async def _plain(self, key: str) -> None:
        await self._prompt(key, self.system.script(key))

    async def _asked(self, key: str) -> None:
        allow = self._chance.random() < 0.7
        await self._prompt(key, self.system.script(key, ask=True), (1,) if allow else (0,))
        question = await self.system.question(self._session)
        option = "allow_once" if allow else "reject_once"
        await self.system.answer(self._session, question, option, f"answer {key}")

    async def _followed(self, key: str) -> None:
        await self._prompt(key, self.system.script(key, until=key))
        self.expected[f"{key} went on"] = (1,)
        text = self.system.script(f"{key}-next")
        await self.system.prompt(self._session, f"{key}-next", text, "turn.follow_up")
        self.expected[f"{key}-next"] = (1,)
        self.system.release(key)

    async def _aborted(self, key: str) -> None:
        # The abort may come before the script has begun.
        await self._prompt(key, self.system.script(key, until="never"), (0, 1))
        text = self.system.script(f"{key}-next")
        await self.system.prompt(self._session, f"{key}-next", text, "turn.abort_and_prompt")
        self.expected[f"{key}-next"] = (1,)


async def _kill_at_random(system: System, chance: random.Random) -> None:
    for _ in range(KILLS):
        await asyncio.sleep(chance.random() * LONGEST_PAUSE_SECONDS)
        chance.choice([each for each in system.workers if each.alive]).kill()
        await system.start_worker()


async def test_sessions_under_random_kills_run_each_prompt_once(system: System) -> None:
    seed = int(os.environ.get("MUSTER_SEED", random.randrange(1 << 32)))
    print(f"seed {seed}")
    chance = random.Random(seed)
    for _ in range(WORKERS):
        await system.start_worker()
    callers = [
        Caller(system, f"c{number}", random.Random(seed + number)) for number in range(SESSIONS)
    ]
    killing = asyncio.create_task(_kill_at_random(system, chance))
    await asyncio.gather(killing, *(each.work(killing.done) for each in callers))
    await check(system)
    found = system.evidence()
    expected: dict[str, tuple[int, ...]] = {AGENT: (SESSIONS,)}
    for caller in callers:
        expected |= caller.expected
    wrong = {line: found[line] for line, times in expected.items() if found[line] not in times}
    assert wrong == {}
    assert set(found) <= set(expected)
    print(f"{KILLS} kills, {len(expected)} lines of evidence")
