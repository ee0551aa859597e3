"""The development stack: Temporal with its UI, MongoDB and one worker under one supervisor."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable
from types import TracebackType
from typing import Self

from muster.client.local_stack import Attempt, MongoInfo, StackInfo, TemporalInfo
from muster.devstack.model import (
    EventKind,
    OnEvent,
    StackEvent,
    StackOptions,
)
from muster.devstack.parts import Site, start_mongo, start_temporal, start_worker
from muster.devstack.process import Child
from muster.devstack.state import StackLock
from muster.devstack.supervisor import Supervisor
from muster.domain.errors import MusterError, OwnershipConflict
from muster.worker.agents import end_agents

SERVERS = ("temporal", "mongo")


def ignore_event(_event: StackEvent) -> None:
    """Say nothing."""


class Stack:
    """Finds or starts what Muster needs, and keeps it running until `stop`.

    Start it from the main thread: the kernel ends the processes together with the thread that
    started them, so that a killed supervisor leaves nothing behind.
    """

    def __init__(self, options: StackOptions, on_event: OnEvent = ignore_event) -> None:
        self.options = options
        self.data_dir = options.data_dir.resolve()
        self.state_root = self.data_dir / "state"
        self._on_event = on_event
        self._lock = StackLock(self.data_dir)
        self._supervisors: dict[str, Supervisor] = {}
        self._temporal: TemporalInfo | None = None
        self._mongo: MongoInfo | None = None
        self._attempts: tuple[Attempt, ...] = ()
        self._state = "starting"
        self._gave_up: asyncio.Future[MusterError] | None = None

    async def start(self) -> StackInfo:
        """Start everything that the options ask for.

        Raises:
            OwnershipConflict: Another stack runs with this data folder; `read_stack` describes it.
            TemporalUnavailable, MongoUnavailable, WorkerUnavailable: That part can't be had.
                Nothing runs then, nor after any other error.
        """
        if not self._lock.acquire():
            raise OwnershipConflict(f"a stack already runs with {self.data_dir}")
        self._gave_up = asyncio.get_running_loop().create_future()
        try:
            for name in await self._lock.end_leftovers():
                self._say(name, EventKind.NOTICE, "ended; an earlier stack had left it running")
            self.state_root.mkdir(mode=0o700, exist_ok=True)
            self._write_state()
            await self._start_parts()
        except BaseException:
            await self.stop()
            raise
        self._state = "running"
        self._write_state()
        return self.describe()

    async def stop(self, *, end_all_agents: bool = False) -> None:
        """Stop the worker, then the agents if asked, then both servers. Repeatable.

        Args:
            end_all_agents: End the agents of the stack's sessions; else they run on, and the
                worker of a next start finds them.
        """
        self._state = "stopping"
        await self._stop_part("worker")
        if end_all_agents:
            await self._end_agents()
        await asyncio.gather(*(self._stop_part(name) for name in SERVERS))
        self._lock.release()

    async def gave_up(self) -> MusterError:
        """Wait until a part doesn't stay up any more; the coded error that says which."""
        if self._gave_up is None:
            raise RuntimeError("the stack was never started")
        return await asyncio.shield(self._gave_up)

    def describe(self) -> StackInfo:
        """What runs now, and what was found where."""
        running = [each.child.info() for each in self._supervisors.values()]
        return StackInfo(
            state=self._state,
            pid=os.getpid(),
            data_dir=str(self.data_dir),
            state_root=str(self.state_root),
            temporal=self._temporal,
            mongo=self._mongo,
            worker="worker" in self._supervisors,
            processes=tuple(each for each in running if each is not None),
            attempts=self._attempts,
        )

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.stop(end_all_agents=not self.options.keep_agents)

    async def _start_parts(self) -> None:
        site = Site(self.options, self.data_dir, self._on_event, self._adopt)
        # Both servers at once; a failure is raised after the other one has settled.
        parts: list[Awaitable[None]] = []
        if self.options.with_temporal:
            parts.append(self._bring_up_temporal(site))
        if self.options.with_mongo:
            parts.append(self._bring_up_mongo(site))
        for result in await asyncio.gather(*parts, return_exceptions=True):
            if isinstance(result, BaseException):
                raise result
        if self.options.worker:
            await start_worker(site, self._temporal, self._mongo)

    async def _bring_up_temporal(self, site: Site) -> None:
        self._temporal, attempts = await start_temporal(site)
        self._attempts = (*attempts, *self._attempts)

    async def _bring_up_mongo(self, site: Site) -> None:
        self._mongo, attempts = await start_mongo(site)
        self._attempts = (*self._attempts, *attempts)

    def _adopt(self, child: Child) -> None:
        self._supervisors[child.name] = Supervisor(
            child, self._on_event, self._write_state, self._give_up
        )
        self._write_state()

    def _give_up(self, error: MusterError) -> None:
        if self._gave_up is not None and not self._gave_up.done():
            self._gave_up.set_result(error)

    async def _stop_part(self, name: str) -> None:
        if name in self._supervisors:
            self._say(name, EventKind.STOPPING, "stopping")
            await self._supervisors.pop(name).stop()
            self._say(name, EventKind.STOPPED, "stopped")

    async def _end_agents(self) -> None:
        ended = await end_agents(self.state_root)
        if ended:
            self._say("agents", EventKind.STOPPED, f"ended {ended}")

    def _write_state(self) -> None:
        self._lock.write(self.describe())

    def _say(self, component: str, kind: EventKind, message: str) -> None:
        self._on_event(StackEvent(component, kind, message))
