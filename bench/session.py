"""What creating a session takes, beside a bare workflow with the same steps.

    python -m bench session

The agent's own time is taken out: once by an agent that needs none, once by subtracting the
launch of a real one. The bare workflow takes turns with the real one on the same worker and server.
"""

from __future__ import annotations

import time
import uuid
from dataclasses import dataclass, field, replace

from temporalio.client import WithStartWorkflowOperation
from temporalio.common import WorkflowIDConflictPolicy

from bench.bare import CREATE, PUBLISHED, BareCreate, BareInput, Step
from bench.common import Figure, latency
from bench.measure import WITHIN, Costs, Meter, Plan, spans_of
from bench.stage import RuntimeName, Stage, open_stage
from muster.client.requests import create_command
from muster.domain.contracts import Activities
from muster.domain.creation import CreateSpec
from muster.domain.identifiers import create_workflow_id, session_workflow_id

MOST_EVENTS = 30
"""History events that a creation may have."""

NAME = "creation"


@dataclass(frozen=True)
class Created:
    """One creation as its caller saw it."""

    key: str
    session_id: str
    began: float
    ended: float


@dataclass
class Sample:
    """Creations of one kind."""

    costs: Costs = field(default_factory=Costs)
    created: list[Created] = field(default_factory=list)


async def create(stage: Stage) -> Created:
    """Create a session as a client does."""
    key, began = uuid.uuid4().hex, time.time()
    answer = await stage.client.create(CreateSpec(cwd=str(stage.folder / "work")), key=key)
    return Created(key, answer.session_id, began, time.time())


async def create_bare(stage: Stage) -> Created:
    """The same steps without content."""
    key, began = uuid.uuid4().hex, time.time()
    root, runtime = stage.bare_queues
    given = BareInput(session_id=key, root_queue=root, runtime_queue=runtime)
    operation = WithStartWorkflowOperation(
        BareCreate.run,
        given,
        id=f"bare-create/{key}",
        task_queue=root,
        id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
        static_summary=f"create session {key}",
    )
    await stage.temporal.execute_update_with_start_workflow(
        CREATE, Step(), start_workflow_operation=operation, result_type=Step
    )
    return Created(key, key, began, time.time())


async def creations(meter: Meter, sample: Sample, operations: int, rate: float) -> None:
    """A block of creations, until every session is published."""
    stage, namespace = meter.stage, meter.stage.settings.namespace
    sample.created += await meter.block(
        sample.costs,
        rate,
        [lambda: create(stage)] * operations,
        lambda spans, created: bool(
            spans_of(
                spans,
                session_workflow_id(namespace, created.session_id),
                Activities.PUBLISH_EVENTS,
            )
        ),
    )


async def bare_creations(meter: Meter, sample: Sample, operations: int, rate: float) -> None:
    """A block of the bare workflow."""
    stage = meter.stage
    sample.created += await meter.block(
        sample.costs,
        rate,
        [lambda: create_bare(stage)] * operations,
        lambda spans, created: bool(
            spans_of(spans, f"bare-session/{created.session_id}", PUBLISHED)
        ),
    )


async def creation_events(stage: Stage, created: Created) -> int:
    """The history events of a creation's workflow."""
    digest = create_command(
        stage.settings.namespace, created.key, CreateSpec(cwd=str(stage.folder / "work"))
    ).key_digest
    return await events(stage, create_workflow_id(stage.settings.namespace, digest))


async def events(stage: Stage, workflow: str) -> int:
    """The history events of a workflow's current run."""
    description = await stage.temporal.get_workflow_handle(workflow).describe()
    return description.history_length


def times(stage: Stage, sample: Sample) -> list[float]:
    """Milliseconds of each creation, without the launch of its agent."""
    found = []
    for each in sample.created:
        launches = spans_of(stage.worker.spans, each.session_id, "launch")
        launching = sum(span.ended - span.began for span in launches)
        found.append(1e3 * (each.ended - each.began - launching))
    return found


async def measure(runtime: RuntimeName, plan: Plan) -> list[Figure]:
    """The figures with one kind of agent."""
    name = NAME if runtime == "instant" else f"{NAME}, {runtime} agent"
    real, bare = Sample(), Sample()
    async with open_stage(runtime) as stage:
        warm = Meter(stage)
        await creations(warm, Sample(), 4, 4.0)
        await bare_creations(warm, Sample(), 4, 4.0)
        meter = await Meter.of(stage)
        for operations in plan.turns():
            await bare_creations(meter, bare, operations, plan.rate)
            await creations(meter, real, operations, plan.rate)
        took = times(stage, real)
        floor = [1e3 * (each.ended - each.began) for each in bare.created]
        length = await creation_events(stage, real.created[-1])
        floor_length = await events(stage, f"bare-create/{bare.created[-1].key}")
    note = f"bare workflow: {floor_length} history events"
    figures = [latency(name, took, floor, target=WITHIN, note=note)]
    if runtime == "instant":
        counted = real.costs.figures(name, length, bare.costs)
        counted[0] = replace(counted[0], target=MOST_EVENTS)
        figures += counted
    return figures


async def run(plan: Plan) -> list[Figure]:
    """The figures with an agent that needs no time and with a real one."""
    few = replace(plan, operations=max(2, plan.operations // 2), rate=min(plan.rate, 1.0))
    return [*await measure("instant", plan), *await measure("acp", few)]
