"""Runs fault cases side by side: most of a case is waiting for a timeout."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Protocol

from tests.faults.harness import System

NewSystem = Callable[[Path], AbstractAsyncContextManager[System]]

AT_ONCE = 6
TRIES = 4


class NotTheCase(Exception):
    """What a case is about didn't come about by chance; it is run again on another system."""


class Case(Protocol):
    """One run on a system of its own."""

    async def run(self, system: System) -> None:
        """Do it, and assert how it went; the system has no worker yet.

        Raises NotTheCase to be run again.
        """


class SideBySide:
    """Starts all cases when made; each test awaits its own.

    Args:
        cases: By the node id of the test that awaits it.
        new_system: Makes a system beneath a folder.
        folder: Of all their systems.
    """

    def __init__(self, cases: Mapping[str, Case], new_system: NewSystem, folder: Path) -> None:
        self._places = asyncio.Semaphore(AT_ONCE)
        self._new_system = new_system
        self._tasks = {
            name: asyncio.create_task(self._run(case, folder / str(number)))
            for number, (name, case) in enumerate(cases.items())
        }

    async def outcome(self, name: str) -> None:
        """Return when the case is through, or raise what it raised."""
        await self._tasks[name]

    async def end(self) -> None:
        """End what still runs."""
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    async def _run(self, case: Case, folder: Path) -> None:
        async with self._places:
            for number in range(TRIES):
                try:
                    async with self._new_system(folder / str(number)) as system:
                        return await case.run(system)
                except NotTheCase as chance:
                    reason = chance
            raise reason
