"""What a prompt costs after ten, a thousand and ten thousand prompts on the same session.

    python -m bench ten-thousand [--prompts N]

Between the measured hundreds the session is filled with queued prompts, as fast as it takes them.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from dataclasses import dataclass, replace
from pathlib import Path

from bench.common import Figure, latency
from bench.measure import Costs, Meter
from bench.prompt import TEXT, TURN_ENDED, end_of, real_sample, send
from bench.session import create
from bench.stage import Stage, open_stage
from muster.domain.identifiers import session_workflow_id
from muster.stores.files import limits, paths

NAME = "prompt on one session"
MOST_EVENTS_A_RUN = 10_000
WITHIN = 1.3
"""What the last hundred may cost of the first hundred."""

WARM_UP = 10
WINDOW = 100
BATCH = 8
"""How many prompts are queued at a time between the measured ones: the server takes ten updates
of a workflow at once."""

_POLL_SECONDS = 0.05


@dataclass(frozen=True)
class Window:
    """A hundred prompts, one after the other, and what there was after them."""

    before: int
    """Prompts that the session had before."""
    took_ms: tuple[float, ...]
    costs: Costs
    document_bytes: int
    archive_bytes: int

    @property
    def processor_ms(self) -> float:
        """For each prompt, in all processes."""
        return self.costs.processor_ms


class Session:
    """The one session of this bench."""

    def __init__(self, stage: Stage, session_id: str) -> None:
        self.stage = stage
        self.session_id = session_id
        self.prompts = 0
        self.workflow = session_workflow_id(stage.settings.namespace, session_id)
        self._sample = real_sample()

    async def one(self) -> float:
        """One prompt until everything is published; milliseconds until its turn had ended."""
        worker = self.stage.worker
        worker.spans.clear()
        sent = await send(self.stage, self.session_id)
        self.prompts += 1
        while True:
            await worker.snapshot()
            ended, shown = end_of(worker.spans, sent, self._sample.ended, self._sample.published)
            if shown:
                return 1e3 * (ended - sent.began)
            await asyncio.sleep(_POLL_SECONDS)

    async def window(self, meter: Meter, prompts: int) -> Window:
        """Measure so many prompts, each after the one before has settled."""
        costs, before = Costs(), self.prompts
        took: list[float] = []

        async def all_of_them() -> None:
            took.extend([await self.one() for _ in range(prompts)])

        await meter.block(costs, 1.0, [all_of_them], lambda _spans, _result: True)
        costs.operations = prompts
        document, archive = await asyncio.to_thread(self._sizes)
        return Window(before, tuple(took), costs, document, archive)

    async def fill(self, up_to: int) -> None:
        """Queue prompts until there have been so many."""
        while self.prompts < up_to:
            size = min(BATCH, up_to - self.prompts)
            self.stage.worker.spans.clear()
            await asyncio.gather(*(self._follow_up() for _ in range(size)))
            await self.stage.until(
                lambda spans, wanted=size: sum(s.name == TURN_ENDED for s in spans) >= wanted,  # type: ignore[misc]
                "a batch of queued prompts",
            )
            self.prompts += size
        await asyncio.sleep(1.0)

    async def _follow_up(self) -> None:
        await self.stage.client.send(
            self.session_id, TEXT, operation="turn.follow_up", key=uuid.uuid4().hex
        )

    def _sizes(self) -> tuple[int, int]:
        root, namespace = self.stage.settings.state_root, self.stage.settings.namespace
        document = root / paths.session_document(namespace, self.session_id)
        history = document.parent / "history"
        return document.stat().st_size, _bytes_below(history)

    async def longest_run(self) -> tuple[int, int]:
        """The most history events of a run of the workflow, and how many runs there were."""
        query = f'WorkflowId = "{self.workflow}"'
        lengths = [each.history_length async for each in self.stage.temporal.list_workflows(query)]
        return max(lengths), len(lengths)


def _bytes_below(folder: Path) -> int:
    return sum(each.stat().st_size for each in folder.rglob("*") if each.is_file())


async def measure(prompts: int) -> tuple[list[Window], int, int, float]:
    """Windows at ten, at each power of ten beyond a hundred, and at the end.

    Returns:
        The windows, the most history events of a run, the number of runs, and the prompts a
        second while the session was filled.
    """
    async with open_stage("instant") as stage:
        session = Session(stage, (await create(stage)).session_id)
        for _ in range(WARM_UP):
            await session.one()
        meter = await Meter.of(stage)
        window = min(WINDOW, prompts // 4)
        windows = [await session.window(meter, window)]
        filled, seconds = 0, 0.0
        for end in _ends(prompts):
            began, had = time.monotonic(), session.prompts
            await session.fill(end - window)
            filled, seconds = filled + session.prompts - had, seconds + time.monotonic() - began
            windows.append(await session.window(meter, window))
        await asyncio.sleep(2.0)
        events, runs = await session.longest_run()
    return windows, events, runs, filled / seconds if seconds else 0.0


def _ends(prompts: int) -> list[int]:
    return [each for each in (1_000, 10_000) if each < prompts] + [prompts]


def figures(windows: list[Window], events: int, runs: int, rate: float) -> list[Figure]:
    """What was measured, each window beside the first."""
    first, last = windows[0], windows[-1]
    found = [
        replace(
            latency(
                f"{NAME}: sent to turn ended, after {each.before}",
                each.took_ms,
                first.took_ms if each is not first else (),
                note="" if each is first else "beside the first hundred",
            ),
            target=WITHIN if each is last else None,
        )
        for each in windows
    ]
    for each in windows:
        floor = first.processor_ms if each is not first else None
        found.append(
            Figure(
                f"{NAME}: processor, after {each.before}",
                "ms",
                each.processor_ms,
                floor_p50=floor,
                ratio=round(each.processor_ms / floor, 3) if floor else None,
                target=WITHIN if each is last else None,
                note=_costs(each.costs),
            )
        )
    total = last.before + len(last.took_ms)
    return [
        *found,
        Figure(
            f"{NAME}: history events of the longest run",
            "events a run",
            events,
            target=MOST_EVENTS_A_RUN,
            note=f"{runs} runs",
        ),
        Figure(
            f"{NAME}: document",
            "bytes",
            last.document_bytes,
            target=limits.SESSION_DOCUMENT,
            note=", ".join(f"{each.document_bytes} after {each.before}" for each in windows[:-1]),
        ),
        Figure(
            f"{NAME}: archive",
            "bytes a prompt",
            round(last.archive_bytes / total, 1),
            note=f"{last.archive_bytes} bytes in all",
        ),
        Figure(f"{NAME}: queued prompts", "a second", round(rate, 2)),
    ]


def _costs(costs: Costs) -> str:
    commands = costs.per_operation(sum(costs.commands.values()))
    by_process = [f"{name} {costs.per_operation(ms):g}" for name, ms in costs.processor.items()]
    counts = f"fsyncs {costs.per_operation(costs.fsyncs):g}, MongoDB commands {commands:g}"
    return ", ".join([*by_process, counts])


async def run(prompts: int) -> list[Figure]:
    """The figures after so many prompts."""
    return figures(*await measure(prompts))
