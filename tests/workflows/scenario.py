"""The life of a session in settled steps: each begins when the one before has left no work."""

from __future__ import annotations

from dataclasses import dataclass

from temporalio.client import WorkflowHistory

from muster.client.requests import create_command, prompt_content
from muster.domain.contract import Contract
from muster.domain.contracts import (
    HistoryRequest,
    ReapInput,
    ReconcileInput,
    RepairInput,
    SessionInput,
    SessionRef,
    Workflows,
)
from muster.domain.creation import CreateAnswer
from muster.domain.identifiers import close_workflow_id, create_workflow_id, session_workflow_id
from tests.waiting import eventually_async
from tests.workflows.support import Home

KEY = "recorded"
SHORT_RUN = 100
"""History events of a run, the least there may be."""


@dataclass
class Lived:
    """The histories of a session's life by the name of what they show."""

    histories: dict[str, WorkflowHistory]
    prompts: list[str]
    """What the agent was asked, in order."""


async def live(home: Home) -> Lived:
    """Create a session, use everything that it can do, let it continue as new, and close it."""
    created = await begin(home)
    session = created.session_id
    await use(home, session)
    histories = {"session": await home.session_history(session)}
    histories |= await look_after(home, session)
    await restart_with_short_runs(home, created)
    first_run = await run_of(home, session)
    while await run_of(home, session) == first_run:
        await home.client.send(session, "more", operation="turn.follow_up")
        await settled(home, session)
    await home.client.close(session)
    namespace = home.settings.namespace
    command = create_command(namespace, KEY, home.spec())
    close = close_workflow_id(namespace, session, created.incarnation)
    histories |= {
        "create_session": await home.history(create_workflow_id(namespace, command.key_digest)),
        "session_continues": await home.session_history(session, first_run),
        "session_closes": await home.session_history(session),
        "close_session": await home.history(close),
    }
    return Lived(histories, home.agent(session).prompts)


async def begin(home: Home) -> CreateAnswer:
    """A session with an initial prompt, in a folder that every machine has."""
    begun = prompt_content("begin")
    created = await home.create(KEY, session_id="recorded", cwd="/tmp", initial_prompt=begun)
    await settled(home, created.session_id)
    return created


async def use(home: Home, session: str) -> None:
    """A prompt, a question, a queue, a stop and a report."""
    client = home.client
    await client.send(session, "work")
    await settled(home, session)
    await client.send(session, "ask")
    question = (await home.question(session)).question_id
    await settled(home, session, running=True)
    await client.answer(session, question, "allow")
    await settled(home, session)
    await client.send(session, "hold")
    await settled(home, session, running=True)
    queued = await client.send(session, "queued", operation="turn.follow_up")
    await settled(home, session, running=True)
    await client.cancel_turn(session, queued.turn_id)
    await settled(home, session, running=True)
    await client.stop(session)
    await settled(home, session)
    await client.report(session, "done", "all of it")
    await settled(home, session)


async def look_after(home: Home, session: str) -> dict[str, WorkflowHistory]:
    """Run each workflow that looks after sessions once."""
    namespace, placement = home.settings.namespace, home.settings.placement
    given: dict[Workflows, Contract] = {
        Workflows.REAP_IDLE_SESSIONS: ReapInput(namespace_id=namespace, placement=placement),
        Workflows.RECONCILE_SESSIONS: ReconcileInput(namespace_id=namespace, placement=placement),
        Workflows.REPAIR_SESSION: RepairInput(
            namespace_id=namespace, session_id=session, placement=placement
        ),
        Workflows.READ_HISTORY: HistoryRequest(namespace_id=namespace, session_id=session),
    }
    names = {
        Workflows.REAP_IDLE_SESSIONS: "reap_idle_sessions",
        Workflows.RECONCILE_SESSIONS: "reconcile_sessions",
        Workflows.REPAIR_SESSION: "repair_session",
        Workflows.READ_HISTORY: "read_history",
    }
    found = {}
    for workflow, argument in given.items():
        workflow_id = f"{names[workflow]}/{namespace}"
        await home.temporal.execute_workflow(
            workflow, argument, id=workflow_id, task_queue=placement.root_queue
        )
        found[names[workflow]] = await home.history(workflow_id)
    return found


async def restart_with_short_runs(home: Home, created: CreateAnswer) -> None:
    """Have the session's workflow begin anew from its document, with runs as short as may be."""
    workflow_id = session_workflow_id(created.namespace_id, created.session_id)
    await home.temporal.get_workflow_handle(workflow_id).terminate("to begin anew")
    ref = SessionRef(
        namespace_id=created.namespace_id,
        session_id=created.session_id,
        incarnation=created.incarnation,
    )
    placement = home.settings.placement
    await home.temporal.start_workflow(
        Workflows.SESSION,
        SessionInput(ref=ref, placement=placement, continue_after_events=SHORT_RUN),
        id=workflow_id,
        task_queue=placement.root_queue,
    )


async def run_of(home: Home, session: str) -> str:
    """The session's present run."""
    workflow_id = session_workflow_id(home.settings.namespace, session)
    return (await home.temporal.get_workflow_handle(workflow_id).describe()).run_id or ""


async def settled(home: Home, session: str, *, running: bool = False) -> WorkflowHistory:
    """The session's history once it waits for nobody but its callers, or its agent if `running`."""
    workflow_id = session_workflow_id(home.settings.namespace, session)
    handle = home.temporal.get_workflow_handle(workflow_id)

    async def look() -> WorkflowHistory | None:
        description = (await handle.describe()).raw_description
        under_way = [each.activity_type.name for each in description.pending_activities]
        if description.HasField("pending_workflow_task") or under_way != ["follow"] * running:
            return None
        history = await handle.fetch_history()
        # Described and fetched one after the other: nothing may have happened in between.
        return history if _rests(history) else None

    found = await eventually_async(look)
    assert found is not None
    return found


def _rests(history: WorkflowHistory) -> bool:
    """A workflow task has been completed, and none was asked for since."""
    asked = [
        each.event_id
        for each in history.events
        if each.HasField("workflow_task_scheduled_event_attributes")
    ]
    completed = [
        each.workflow_task_completed_event_attributes.scheduled_event_id
        for each in history.events
        if each.HasField("workflow_task_completed_event_attributes")
    ]
    return bool(completed) and asked[-1] == completed[-1]
