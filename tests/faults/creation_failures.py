"""The table of creations that something breaks: where, what, and what is there at the end.

The worker is frozen at the named point, so that the failure strikes exactly there; then it goes
on, or another one takes its place. Nobody helps: a creation finishes by itself once what was
broken is back.
"""

from __future__ import annotations

import asyncio
import errno
import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from muster.domain.creation import CreateAnswer, CreationReceipt
from muster.domain.errors import RuntimeGone, TemporalUnavailable, WorkerUnavailable
from muster.runtimes.acp import layout
from muster.runtimes.acp.record import recorded_processes
from tests.faults.harness import AGENT, PATIENCE_SECONDS, System, WorkerProcess
from tests.faults.oracles import check
from tests.waiting import eventually

Creating = asyncio.Task[CreateAnswer]

POINTS = {
    "creation.claimed": "before the launch",
    "launch.before_spawn": "during the launch",
    "launch.spawned": "the reply is lost",
    "launch.answered": "after the launch, before the record",
    "creation.document_written": "after the document, before the receipt",
    "creation.receipt_written": "after the receipt, before the session starts",
}
"""Where a creation is interrupted."""

LAUNCHED = [point for point in POINTS if point not in ("creation.claimed", "launch.before_spawn")]
"""Where a runtime is there to be killed."""

DISK_BYTES = 2 << 20
"""Of the small disk: room for some sessions."""

FULL_SECONDS = 5.0
"""How long that disk stays full at most: longer than anything waits before it tries again."""


@dataclass(frozen=True)
class Outcome:
    """What there is when the creation has ended, before its session is closed."""

    answered: bool = True
    """The creator has an answer, with a document and a complete receipt; else a failure on it."""
    alive: int = 1
    """Agents that are left; whatever happens, one was started, once."""

    def holds(self, system: System) -> None:
        """Look at everything."""
        receipts = _receipts(system)
        assert len(receipts) == 1
        assert receipts[0].completed_at is not None
        assert (receipts[0].answer is not None) == self.answered
        assert (receipts[0].failure is None) == self.answered
        assert len(_files(system, "sessions/*/session.json")) == self.answered
        assert len(_files(system, "keys/*")) == self.answered
        assert system.living_agents() == self.alive
        assert system.evidence() == {AGENT: 1}


@dataclass(frozen=True)
class Failure:
    """One cell of the table: something breaks at a point."""

    point: str
    outcome: Outcome = Outcome()

    def __str__(self) -> str:
        return f"{type(self).__name__}-{self.point}"

    async def run(self, system: System) -> None:
        """Create a session through the failure, and look at what there is then."""
        creating, worker = await frozen(system, self.point)
        try:
            await self.strike(system, worker, creating)
            await finished(system, creating, self.outcome)
        finally:
            creating.cancel()

    async def strike(self, system: System, worker: WorkerProcess, creating: Creating) -> None:
        """Break it, and bring back what was broken."""
        raise NotImplementedError


@dataclass(frozen=True)
class WorkerKilled(Failure):
    """The worker dies there, and another one starts."""

    async def strike(self, system: System, worker: WorkerProcess, creating: Creating) -> None:
        worker.kill()
        await system.start_worker()


@dataclass(frozen=True)
class RuntimeKilled(Failure):
    """The sidecar dies while the worker stands still, with its agent at work."""

    async def strike(self, system: System, worker: WorkerProcess, creating: Creating) -> None:
        await system.left(AGENT)
        for folder in _launches(system):
            sidecar = recorded_processes(layout.read_json(folder / layout.LAUNCH) or {})[0]
            os.kill(sidecar.pid, signal.SIGKILL)
        await eventually(lambda: system.living_agents() == 0)
        worker.signal(signal.SIGCONT)


@dataclass(frozen=True)
class DiskFull(Failure):
    """The state root's disk is full, until somebody makes room."""

    async def run(self, system: System) -> None:
        with small_disk(system.state_root):
            try:
                await super().run(system)
            finally:
                await system.end()

    async def strike(self, system: System, worker: WorkerProcess, creating: Creating) -> None:
        filler = fill(system.state_root)
        worker.signal(signal.SIGCONT)
        # A sidecar that waits for room has no place to say so: then the time has to do.
        with suppress(AssertionError):
            await eventually(
                lambda: creating.done() or "No space left" in worker.log.read_text(),
                within=FULL_SECONDS,
            )
        filler.unlink()


async def frozen(system: System, point: str) -> tuple[Creating, WorkerProcess]:
    """A creation under way and the worker that stands still at the point."""
    worker = await system.start_worker()
    await worker.arm(f"{point}=stop")
    creating = asyncio.create_task(system.create())
    await worker.stopped()
    return creating, worker


async def finished(system: System, creating: Creating, outcome: Outcome) -> None:
    """The creation ends by itself as stated, and stays so for who asks again."""
    if outcome.answered:
        answer = await asyncio.wait_for(_answer(system, creating), PATIENCE_SECONDS)
        await system.idle(answer.session_id)
        outcome.holds(system)
        await check(system)
        return
    for asking in (creating, system.create()):
        try:
            await asyncio.wait_for(asking, PATIENCE_SECONDS)
        except RuntimeGone:
            outcome.holds(system)
        else:
            raise AssertionError("the creation was answered")


async def _answer(system: System, creating: Creating) -> CreateAnswer:
    """The creation's answer; a caller who was told that nobody is there asks again."""
    while True:
        try:
            return await creating
        except (TemporalUnavailable, WorkerUnavailable):
            creating = asyncio.create_task(system.create())


@contextmanager
def small_disk(folder: Path) -> Iterator[None]:
    """A disk of its own for a folder; needs root."""
    folder.mkdir(mode=0o700)
    options = f"size={DISK_BYTES},mode=0700"
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def fill(folder: Path) -> Path:
    """A file that leaves no room on the folder's disk."""
    filler = folder / "filler"
    block = b"\0" * 4096
    with filler.open("wb", buffering=0) as file:
        try:
            while file.write(block):
                continue
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise
    return filler


def _launches(system: System) -> list[Path]:
    return [path.parent for path in _files(system, f"sessions/*/runtime/*/{layout.LAUNCH}")]


def _receipts(system: System) -> list[CreationReceipt]:
    return [
        CreationReceipt.model_validate_json(path.read_bytes())
        for path in _files(system, "creations/*/*.json")
    ]


def _files(system: System, pattern: str) -> list[Path]:
    return list((system.state_root / "v2" / system.name).glob(pattern))


GIVEN_UP = Outcome(answered=False, alive=0)
"""Its agent was started and has ended: it isn't started again under the same key."""

WITHOUT_AGENT = Outcome(alive=0)
"""The session is there, and says that its runtime is gone."""

ROWS: tuple[Failure, ...] = (
    *(WorkerKilled(point) for point in POINTS),
    *(
        RuntimeKilled(point, GIVEN_UP if point == "launch.spawned" else WITHOUT_AGENT)
        for point in LAUNCHED
    ),
)

ROWS_ON_A_DISK: tuple[Failure, ...] = tuple(
    # The first is in the middle of the claim, when there is a key that no claim names yet.
    DiskFull(point)
    for point in ("files.temporary_written", *POINTS)
)
