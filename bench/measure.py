"""Blocks of operations: arrivals that wait for nobody, then what the block has cost."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from bench.common import Figure
from bench.probe import Span
from bench.processor import spent
from bench.stage import Stage

T = TypeVar("T")

WITHIN = 1.25
"""What a median may be of the bare workflow's."""

IDLE_SECONDS = 3.0

TURN = 20
"""Operations of a block."""


@dataclass(frozen=True)
class Plan:
    """How much is measured.

    Attributes:
        operations: In each run.
        rate: Arrivals a second.
        runs: How many.
    """

    operations: int = 40
    rate: float = 2.0
    runs: int = 3

    def turns(self) -> Iterator[int]:
        """How many operations each block has: the floor's and Muster's take turns.

        Short enough that a machine that becomes slower or faster does so for both, and long enough
        that what the other's block has driven out of the processor's caches doesn't count.
        """
        for _ in range(self.runs):
            for done in range(0, self.operations, TURN):
                yield min(TURN, self.operations - done)


@dataclass
class Costs:
    """What operations of one kind have cost in all blocks so far."""

    operations: int = 0
    fsyncs: int = 0
    commands: Counter[str] = field(default_factory=Counter)
    processor: Counter[str] = field(default_factory=Counter)
    """Milliseconds by process, less what the idle processes use anyway."""

    def per_operation(self, total: float) -> float:
        """A total of all blocks, shared out."""
        return round(total / max(1, self.operations), 2)

    @property
    def processor_ms(self) -> float:
        """For each operation, in all processes."""
        return self.per_operation(sum(self.processor.values()))

    def figures(
        self, name: str, events: float | None = None, floor: Costs | None = None
    ) -> list[Figure]:
        """The stable figures of the operation `name`, the processor's beside the floor's."""
        by_process = ", ".join(
            f"{process} {self.per_operation(ms):g}" for process, ms in self.processor.items()
        )
        by_command = ", ".join(
            f"{command} {self.per_operation(count):g}"
            for command, count in sorted(self.commands.items())
        )
        found = [
            Figure(f"{name}: fsyncs", "fsyncs", self.per_operation(self.fsyncs)),
            Figure(
                f"{name}: MongoDB commands",
                "commands",
                self.per_operation(sum(self.commands.values())),
                note=by_command,
            ),
        ]
        if self.processor:
            beside = floor.processor_ms if floor is not None else None
            found.append(
                Figure(
                    f"{name}: processor",
                    "processor ms",
                    self.processor_ms,
                    floor_p50=beside,
                    ratio=round(self.processor_ms / beside, 3) if beside else None,
                    note=by_process,
                )
            )
        if events is not None:
            found.insert(0, Figure(f"{name}: history events", "events", round(events, 2)))
        return found


class Meter:
    """Runs blocks on a stage and adds up their costs.

    Args:
        idle: Processor milliseconds a second that each process uses without any work.
    """

    def __init__(self, stage: Stage, idle: dict[str, float] | None = None) -> None:
        self.stage = stage
        self.idle = idle or {}

    @classmethod
    async def of(cls, stage: Stage) -> Meter:
        """A meter that knows what idling costs."""
        before, began = stage.processor(), time.monotonic()
        await asyncio.sleep(IDLE_SECONDS)
        seconds = time.monotonic() - began
        used = spent(before, stage.processor())
        return cls(stage, {name: ms / seconds for name, ms in used.items()})

    async def block(
        self,
        costs: Costs,
        rate: float,
        operations: Sequence[Callable[[], Awaitable[T]]],
        settled: Callable[[list[Span], T], bool],
    ) -> list[T]:
        """One block, ended only when everything that it caused is done.

        Args:
            settled: Whether the worker's spans show that for one operation's result.

        Returns:
            What each operation returned.
        """
        counts = await self.stage.worker.snapshot()
        before, began = self.stage.processor(), time.monotonic()
        results = await open_loop(rate, operations)
        await self.stage.until(
            lambda spans: all(settled(spans, each) for each in results),
            "what a block of operations caused",
        )
        seconds = time.monotonic() - began
        used = spent(before, self.stage.processor())
        after = await self.stage.worker.snapshot()
        costs.operations += len(operations)
        costs.fsyncs += after.fsyncs - counts.fsyncs
        costs.commands += Counter(after.mongo) - Counter(counts.mongo)
        for name, ms in used.items():
            costs.processor[name] += round(max(0.0, ms - self.idle.get(name, 0.0) * seconds))
        return results


async def open_loop(rate: float, operations: Sequence[Callable[[], Awaitable[T]]]) -> list[T]:
    """Begin an operation each 1/rate seconds, whether or not earlier ones are done.

    Returns:
        What each returned, in their order.
    """
    began = time.monotonic()

    async def at(number: int, operation: Callable[[], Awaitable[T]]) -> T:
        await asyncio.sleep(max(0.0, began + number / rate - time.monotonic()))
        return await operation()

    return list(await asyncio.gather(*(at(i, each) for i, each in enumerate(operations))))


def spans_of(spans: Sequence[Span], workflow: str, name: str, after: float = 0.0) -> list[Span]:
    """The spans of one workflow and name that began later than a moment."""
    return [
        each
        for each in spans
        if each.workflow == workflow and each.name == name and each.began > after
    ]
