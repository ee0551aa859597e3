"""A worker that is frozen, overtaken by another and then goes on changes nothing twice.

A frozen process keeps its locks. So there are two kinds of points: at the first its successor
does the work at once, at the second it waits until the frozen worker goes on or dies, since
nobody can know which of both it will do.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Mapping
from dataclasses import dataclass

import pytest

from tests.faults.harness import AGENT, PATIENCE_SECONDS, System
from tests.faults.oracles import check, first_answer
from tests.faults.side_by_side import Case, NotTheCase, SideBySide
from tests.faults.situations import Answer, Close, Create, Prompt, Situation
from tests.waiting import eventually_async

pytestmark = pytest.mark.faults

HELD_SECONDS = 8.0
"""A successor that nothing held up would have answered by then, even if a first task of its own
went to the frozen worker's open polls."""


@dataclass(frozen=True)
class Overtaken:
    """Frozen where nothing is locked; the successor ends the work, then the zombie goes on.

    Another thread of the zombie may hold a lock just then: not what this is about.
    """

    situation: type[Situation]
    point: str
    lines: Mapping[str, int]

    def __str__(self) -> str:
        return f"{self.situation.__name__}-{self.point}"

    async def run(self, system: System) -> None:
        zombie = await system.start_worker()
        act = self.situation(system)
        await act.prepare()
        await zombie.arm(f"{self.point}=stop")
        request = asyncio.create_task(act.request())
        try:
            await zombie.stopped()
            if system.locked():
                raise NotTheCase(f"frozen with {system.locked()} locked")
            await system.start_worker()
            answer = await asyncio.wait_for(request, PATIENCE_SECONDS)
        finally:
            request.cancel()
        for session in set(system.created) - set(system.closed):
            await system.idle(session)
        zombie.signal(signal.SIGCONT)
        assert first_answer(await act.request()) == first_answer(answer)
        await check(system)
        assert system.evidence() == {AGENT: 1, **self.lines}


@dataclass(frozen=True)
class Holding:
    """Frozen while the session's folder is locked; how the zombie ends decides who writes."""

    situation: type[Situation]
    point: str
    end: signal.Signals
    lines: Mapping[str, int]
    """At the end; while the zombie is frozen only what was there before it."""

    def __str__(self) -> str:
        return f"{self.situation.__name__}-{self.point}-{self.end.name}"

    async def run(self, system: System) -> None:
        zombie = await system.start_worker()
        act = self.situation(system)
        await act.prepare()
        before = system.evidence()
        await zombie.arm(f"{self.point}=stop")
        request = asyncio.create_task(act.request())
        try:
            await zombie.stopped()
            await system.start_worker()
            await _taken_over(system)
            done, _ = await asyncio.wait({request}, timeout=HELD_SECONDS)
            assert not done, "the lock of a frozen worker was passed over"
            assert system.evidence() == before
            zombie.signal(self.end)
            answer = await asyncio.wait_for(request, PATIENCE_SECONDS)
        finally:
            request.cancel()
        assert first_answer(await act.request()) == first_answer(answer)
        await check(system)
        assert system.evidence() == {AGENT: 1, **self.lines}


OVERTAKEN = (
    Overtaken(Create, "launch.spawned", {}),
    Overtaken(Create, "session.committed", {}),
    Overtaken(Prompt, "session.committed", {"a": 1}),
    Overtaken(Prompt, "deliver.sent", {"a": 1}),
    Overtaken(Prompt, "journal.appended", {"a": 1}),
    Overtaken(Answer, "answer.sent", {"a": 1}),
    Overtaken(Close, "close.tombstone_written", {"a": 1}),
    Overtaken(Close, "close.runtime_closed", {"a": 1}),
)
HOLDING = (
    Holding(Prompt, "files.temporary_written", signal.SIGCONT, {"a": 1}),
    Holding(Prompt, "files.temporary_written", signal.SIGKILL, {"a": 1}),
    Holding(Prompt, "files.renamed", signal.SIGCONT, {"a": 1}),
    Holding(Close, "close.document_removed", signal.SIGCONT, {"a": 1}),
)


@pytest.mark.parametrize("case", OVERTAKEN, ids=str)
async def test_a_frozen_worker_that_goes_on_after_its_successor_changes_nothing(
    case: Case, request: pytest.FixtureRequest, side_by_side: SideBySide
) -> None:
    await side_by_side.outcome(request.node.nodeid)


@pytest.mark.parametrize("case", HOLDING, ids=str)
async def test_a_successor_waits_for_a_frozen_worker_that_holds_the_folder(
    case: Case, request: pytest.FixtureRequest, side_by_side: SideBySide
) -> None:
    await side_by_side.outcome(request.node.nodeid)


async def _taken_over(system: System) -> None:
    """Return once what the frozen worker was doing has been given to another."""

    async def again() -> bool:
        async for found in system.temporal.list_workflows(f"MusterNamespace = '{system.name}'"):
            handle = system.temporal.get_workflow_handle(found.id, run_id=found.run_id)
            described = (await handle.describe()).raw_description
            attempts = [each.attempt for each in described.pending_activities]
            if max([described.pending_workflow_task.attempt, *attempts]) > 1:
                return True
        return False

    await eventually_async(again, within=PATIENCE_SECONDS)
