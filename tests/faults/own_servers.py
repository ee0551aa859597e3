"""Servers of a test's own, to be stopped and started."""

from __future__ import annotations

import os
import signal
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from muster.devstack import Stack, StackOptions, TemporalChoice
from tests.faults.harness import PATIENCE_SECONDS, System
from tests.waiting import eventually


@dataclass(frozen=True)
class OwnServers:
    """Servers with their data on disk; who watches over them starts them again when they die."""

    stack: Stack
    environ: Mapping[str, str]
    address: str
    mongo_uri: str

    @classmethod
    @asynccontextmanager
    async def started(cls, folder: Path, environ: Mapping[str, str]) -> AsyncIterator[Self]:
        """Temporal and MongoDB with their data in `folder`."""
        options = StackOptions(
            data_dir=folder,
            temporal=TemporalChoice.SERVER,
            worker=False,
            ui=False,
            temporal_port=0,
            mongo_port=0,
            environ=environ,
        )
        async with Stack(options) as stack:
            info = stack.describe()
            assert info.temporal is not None
            assert info.mongo is not None
            yield cls(stack, environ, info.temporal.address, info.mongo.uri)

    def system(self, folder: Path) -> AbstractAsyncContextManager[System]:
        """A system on these servers."""
        return System.on(self.address, self.mongo_uri, self.environ, folder)

    @asynccontextmanager
    async def without(self, name: str) -> AsyncIterator[None]:
        """End a server as a power cut would; after the block, return once it serves again."""
        before = self._pid(name)
        assert before is not None
        os.kill(before, signal.SIGKILL)
        yield
        await eventually(lambda: self._pid(name) not in (None, before), within=PATIENCE_SECONDS)

    def _pid(self, name: str) -> int | None:
        found = [each.pid for each in self.stack.describe().processes if each.name == name]
        return found[0] if found else None
