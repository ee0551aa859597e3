"""Keep one process of the stack alive: start again what ended, but not for ever."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence

from muster.devstack.model import (
    EventKind,
    OnEvent,
    StackEvent,
)
from muster.devstack.process import Child, StartFailed
from muster.domain.errors import (
    MongoUnavailable,
    MusterError,
    TemporalUnavailable,
    WorkerUnavailable,
)

RESTART_DELAYS = (0.1, 0.5, 1.0, 2.0, 5.0)
"""Seconds before each restart in a row; after the last failure in a row the stack gives up."""

STEADY_SECONDS = 60.0
"""A process that ran this long begins with the first delay again."""


_ERRORS: dict[str, type[MusterError]] = {
    "temporal": TemporalUnavailable,
    "mongo": MongoUnavailable,
    "worker": WorkerUnavailable,
}


def component_error(child: Child, what: str) -> MusterError:
    """The coded error for a part that isn't up, with where to look."""
    message = f"{what}. Its log is {child.log}; correct the cause and start the stack again"
    return _ERRORS[child.name](message, log=str(child.log))


class Supervisor:
    """Watches a started child until it is stopped.

    Args:
        changed: Called after each restart.
        gave_up: Called once, with the reason, when no further restart is tried.
        delays: Seconds before each restart in a row.
    """

    def __init__(
        self,
        child: Child,
        on_event: OnEvent,
        changed: Callable[[], None],
        gave_up: Callable[[MusterError], None],
        delays: Sequence[float] = RESTART_DELAYS,
    ) -> None:
        self.child = child
        self._on_event = on_event
        self._changed = changed
        self._gave_up = gave_up
        self._delays = delays
        self._task = asyncio.create_task(self._watch(), name=f"watch {child.name}")

    async def stop(self) -> None:
        """End the watch, then the process."""
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        await self.child.stop()

    async def _watch(self) -> None:
        failures = 0
        while True:
            began = time.monotonic()
            status = await self.child.wait()
            if time.monotonic() - began > STEADY_SECONDS:
                failures = 0
            reason = f"ended with status {status}"
            while failures < len(self._delays):
                delay = self._delays[failures]
                failures += 1
                self._say(EventKind.RESTART, f"{reason}; starting it again in {delay:g} s")
                await asyncio.sleep(delay)
                try:
                    await self.child.start()
                except StartFailed as error:
                    reason = str(error)
                    continue
                break
            else:
                self._give_up(reason)
                return
            self.child.restarts += 1
            self._say(EventKind.READY, "runs again")
            self._changed()

    def _give_up(self, reason: str) -> None:
        error = component_error(self.child, f"{self.child.name} doesn't stay up: {reason}")
        self._say(EventKind.FAILED, error.message)
        self._gave_up(error)

    def _say(self, kind: EventKind, message: str) -> None:
        self._on_event(StackEvent(self.child.name, kind, message))
