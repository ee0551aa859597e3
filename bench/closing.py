"""What closing a session takes, beside a bare workflow with the same steps.

    python -m bench closing

The sessions have run a turn, their agents need no time to end, and their creation isn't measured.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial

from temporalio.client import WithStartWorkflowOperation
from temporalio.common import WorkflowIDConflictPolicy

from bench.bare import CLOSE, BareClose, BareInput, Step
from bench.common import Figure, latency
from bench.measure import WITHIN, Costs, Meter, Plan
from bench.prompt import TEXT
from bench.session import Sample as Sessions
from bench.session import bare_creations, creations, events
from bench.stage import Stage, open_stage
from muster.domain.identifiers import close_workflow_id

NAME = "close"


@dataclass(frozen=True)
class Ended:
    """One close as its caller saw it."""

    workflow: str
    began: float
    ended: float


@dataclass
class Sample:
    """Closes of one kind."""

    costs: Costs = field(default_factory=Costs)
    closed: list[Ended] = field(default_factory=list)

    @property
    def times(self) -> list[float]:
        """Milliseconds of each."""
        return [1e3 * (each.ended - each.began) for each in self.closed]


async def close(stage: Stage, session: str) -> Ended:
    """Close a session as a client does."""
    began = time.time()
    answer = await stage.client.close(session)
    workflow = close_workflow_id(stage.settings.namespace, session, answer.incarnation)
    return Ended(workflow, began, time.time())


async def close_bare(stage: Stage, session: str) -> Ended:
    """The same steps without content."""
    root, runtime = stage.bare_queues
    workflow, began = f"bare-close/{session}", time.time()
    operation = WithStartWorkflowOperation(
        BareClose.run,
        BareInput(session_id=session, root_queue=root, runtime_queue=runtime),
        id=workflow,
        task_queue=root,
        id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
        static_summary=f"close session {session}",
    )
    await stage.temporal.execute_update_with_start_workflow(
        CLOSE, Step(), start_workflow_operation=operation, result_type=Step
    )
    return Ended(workflow, began, time.time())


async def closes(meter: Meter, sample: Sample, sessions: Sequence[str], rate: float) -> None:
    """A block of closes."""
    operations = [partial(close, meter.stage, each) for each in sessions]
    sample.closed += await meter.block(sample.costs, rate, operations, lambda *_: True)


async def bare_closes(meter: Meter, sample: Sample, sessions: Sequence[str], rate: float) -> None:
    """A block of the bare workflow."""
    operations = [partial(close_bare, meter.stage, each) for each in sessions]
    sample.closed += await meter.block(sample.costs, rate, operations, lambda *_: True)


async def used_sessions(stage: Stage, number: int) -> list[str]:
    """Sessions that have run a turn and are idle."""
    sample = Sessions()
    await creations(Meter(stage), sample, number, 4.0)
    made = [each.session_id for each in sample.created]
    for each in made:
        accepted = await stage.client.send(each, TEXT)
        await stage.client.wait_turn(each, accepted.turn_id, within=60)
    return made


async def bare_sessions(stage: Stage, number: int) -> list[str]:
    """The bare workflow's."""
    sample = Sessions()
    await bare_creations(Meter(stage), sample, number, 4.0)
    return [each.session_id for each in sample.created]


async def run(plan: Plan) -> list[Figure]:
    """The figures."""
    real, bare = Sample(), Sample()
    async with open_stage("instant") as stage:
        warm = Meter(stage)
        await closes(warm, Sample(), await used_sessions(stage, 3), 4.0)
        await bare_closes(warm, Sample(), await bare_sessions(stage, 3), 4.0)
        meter = await Meter.of(stage)
        for operations in plan.turns():
            ready = await used_sessions(stage, operations)
            bare_ready = await bare_sessions(stage, operations)
            await bare_closes(meter, bare, bare_ready, plan.rate)
            await closes(meter, real, ready, plan.rate)
        length = await events(stage, real.closed[-1].workflow)
        floor_length = await events(stage, bare.closed[-1].workflow)
    note = f"bare workflow: {floor_length} history events"
    return [
        latency(NAME, real.times, bare.times, target=WITHIN, note=note),
        *real.costs.figures(NAME, length),
    ]
