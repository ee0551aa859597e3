"""What a prompt takes from its sender to the end of its turn, beside a bare workflow.

    python -m bench prompt

The end is the moment in which the document with the ended turn is on disk. The time in which
Muster waits for the agent is taken out; the agent's time beside Muster's own work is not.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from bench.bare import ENDED, PROMPT, PUBLISHED, Step
from bench.common import Figure, latency
from bench.measure import WITHIN, Costs, Meter, Plan, spans_of
from bench.probe import Span
from bench.session import Sample as Sessions
from bench.session import bare_creations, creations, events
from bench.stage import RuntimeName, Stage, open_stage
from muster.domain.contracts import Activities
from muster.domain.identifiers import session_workflow_id

MOST_EVENTS = 25
"""History events that a prompt without a question may have."""

NAME = "prompt"
TEXT = "#!muster no-permission\ntrue"
SESSIONS = 16
"""So many that each has long finished when its next prompt comes."""

TURN_ENDED = "record_events"

_SETTLING_SECONDS = 0.5


@dataclass(frozen=True)
class Sent:
    """One prompt as its sender saw it."""

    session_id: str
    workflow: str
    began: float
    accepted: float


@dataclass
class Sample:
    """Prompts of one kind."""

    ended: str
    """The name of the local activity that ends a turn."""
    published: str
    costs: Costs = field(default_factory=Costs)
    sent: list[Sent] = field(default_factory=list)


def real_sample() -> Sample:
    """For prompts to sessions."""
    return Sample(TURN_ENDED, Activities.PUBLISH_EVENTS)


def bare_sample() -> Sample:
    """For the bare workflow's steps."""
    return Sample(ENDED, PUBLISHED)


async def send(stage: Stage, session: str) -> Sent:
    """Send a prompt as a client does; on a machine too busy for the rate it waits in the queue."""
    began = time.time()
    await stage.client.send(session, TEXT, operation="turn.follow_up", key=uuid.uuid4().hex)
    workflow = session_workflow_id(stage.settings.namespace, session)
    return Sent(session, workflow, began, time.time())


async def send_bare(stage: Stage, session: str) -> Sent:
    """The same steps without content."""
    began, workflow = time.time(), f"bare-session/{session}"
    handle = stage.temporal.get_workflow_handle(workflow)
    await handle.execute_update(PROMPT, Step(), result_type=Step)
    return Sent(session, workflow, began, time.time())


def end_of(spans: Sequence[Span], sent: Sent, ended: str, published: str) -> tuple[float, float]:
    """When a prompt's turn was on disk as ended, and when readers saw it; 0 if not yet."""
    turn = spans_of(spans, sent.workflow, ended, sent.began)[:1]
    shown = spans_of(spans, sent.workflow, published, turn[0].ended)[:1] if turn else []
    return (turn[0].ended if turn else 0.0, shown[0].ended if shown else 0.0)


def waited(spans: Sequence[Span], sent: Sent) -> float:
    """How long the worker waited for the agent and had nothing else to do for this prompt."""
    heard = [
        each
        for each in spans_of(spans, sent.session_id, "follow", sent.began)
        if each.agent_ended is not None
    ][:1]
    return sum(max(0.0, min(each.agent_ended or 0.0, each.ended) - each.began) for each in heard)


async def prompts(
    meter: Meter, sample: Sample, sessions: Sequence[str], operations: int, rate: float
) -> None:
    """A block of prompts, each to the session that has rested longest, until all is published."""
    stage = meter.stage
    bare = sample.ended == ENDED
    sender = send_bare if bare else send
    targets = [sessions[number % len(sessions)] for number in range(operations)]
    sample.sent += await meter.block(
        sample.costs,
        rate,
        [partial(sender, stage, session) for session in targets],
        lambda spans, sent: end_of(spans, sent, sample.ended, sample.published)[1] > 0,
    )


@dataclass(frozen=True)
class Times:
    """Milliseconds from the sender on, each list in the order of the prompts."""

    accepted: list[float]
    ended: list[float]
    shown: list[float]


def times(stage: Stage, sample: Sample, *, agent: bool) -> Times:
    """What the prompts of a sample took, without the agent's time if there was an agent."""
    accepted, ended, shown = [], [], []
    for each in sample.sent:
        end, seen = end_of(stage.worker.spans, each, sample.ended, sample.published)
        waiting = waited(stage.worker.spans, each) if agent else 0.0
        accepted.append(1e3 * (each.accepted - each.began))
        ended.append(1e3 * (end - each.began - waiting))
        shown.append(1e3 * (seen - each.began - waiting))
    return Times(accepted, ended, shown)


async def history_per_prompt(stage: Stage, sample: Sample, before: int, workflow: str) -> float:
    """History events that each prompt of a sample added to one session's workflow."""
    sent = sum(each.workflow == workflow for each in sample.sent)
    return (await events(stage, workflow) - before) / max(1, sent)


async def settled_events(stage: Stage, session: str) -> int:
    """The history events of a session's workflow once its workflow task under way is in it."""
    workflow = session_workflow_id(stage.settings.namespace, session)
    length = await events(stage, workflow)
    while True:
        await asyncio.sleep(_SETTLING_SECONDS)
        earlier, length = length, await events(stage, workflow)
        if length == earlier:
            return length


async def measure(runtime: RuntimeName, plan: Plan) -> list[Figure]:
    """The figures with one kind of agent."""
    real, bare = real_sample(), bare_sample()
    async with open_stage(runtime) as stage:
        sessions, bare_sessions = await _sessions(stage)
        warm = Meter(stage)
        await prompts(warm, real_sample(), sessions, SESSIONS, 2.0)
        await prompts(warm, bare_sample(), bare_sessions, SESSIONS, 2.0)
        workflow = session_workflow_id(stage.settings.namespace, sessions[0])
        bare_workflow = f"bare-session/{bare_sessions[0]}"
        await asyncio.sleep(1.0)
        before, bare_before = await events(stage, workflow), await events(stage, bare_workflow)
        meter = await Meter.of(stage)
        for operations in plan.turns():
            await prompts(meter, bare, bare_sessions, operations, plan.rate)
            await prompts(meter, real, sessions, operations, plan.rate)
        await asyncio.sleep(1.0)
        length = await history_per_prompt(stage, real, before, workflow)
        floor_length = await history_per_prompt(stage, bare, bare_before, bare_workflow)
        took = times(stage, real, agent=runtime != "instant")
        floor = times(stage, bare, agent=False)
    name = NAME if runtime == "instant" else f"{NAME}, {runtime} agent"
    note = f"bare workflow: {floor_length:g} history events"
    target: float | None = WITHIN
    if runtime != "instant":
        note, target = "on the same processors: sidecar, agent and a shell for each prompt", None
    figures = [
        latency(f"{name}: sent to turn ended", took.ended, floor.ended, target=target, note=note),
        latency(f"{name}: sent to accepted", took.accepted, floor.accepted),
        latency(f"{name}: sent to shown to readers", took.shown, floor.shown),
    ]
    if runtime == "instant":
        counted = real.costs.figures(name, length, bare.costs)
        counted[0] = replace(counted[0], target=MOST_EVENTS)
        figures += counted
    return figures


async def _sessions(stage: Stage) -> tuple[list[str], list[str]]:
    real, bare = Sessions(), Sessions()
    meter = Meter(stage)
    await creations(meter, real, SESSIONS, 1.0)
    await bare_creations(meter, bare, SESSIONS, 2.0)
    return [each.session_id for each in real.created], [each.session_id for each in bare.created]


async def run(plan: Plan) -> list[Figure]:
    """The figures with an agent that needs no time and with a real one."""
    # Each real agent is three processes, and each of its prompts some more.
    few = replace(plan, operations=max(2, plan.operations // 2), rate=min(plan.rate, 1.0))
    return [*await measure("instant", plan), *await measure("acp", few)]
