"""What an operator sees in Temporal's UI, and how long the histories are."""

from __future__ import annotations

from collections.abc import Iterable

from temporalio.api.history.v1 import HistoryEvent
from temporalio.client import WorkflowExecutionDescription
from temporalio.contrib.pydantic import pydantic_data_converter

from muster.client.requests import create_command
from muster.domain.identifiers import close_workflow_id, create_workflow_id, session_workflow_id
from muster.workflows.attributes import ACTIVITY_AT, NAMESPACE, SESSION, STATUS
from tests.waiting import eventually_async
from tests.workflows.scenario import settled
from tests.workflows.support import FREELY, Home

CREATION_EVENTS = 30
"""The most history events that a creation may cost."""

PROMPT_EVENTS = 25
"""The most history events that a prompt without a question may cost."""


def creation_id(home: Home, key: str) -> str:
    command = create_command(home.settings.namespace, key, home.spec())
    return create_workflow_id(home.settings.namespace, command.key_digest)


async def described(home: Home, workflow_id: str) -> WorkflowExecutionDescription:
    return await home.temporal.get_workflow_handle(workflow_id).describe()


def shown(description: WorkflowExecutionDescription) -> tuple[str | None, str | None, str | None]:
    attributes = description.typed_search_attributes
    return attributes.get(NAMESPACE), attributes.get(SESSION), attributes.get(STATUS)


async def summaries(events: Iterable[HistoryEvent]) -> list[str]:
    converter = pydantic_data_converter
    return [
        (await converter.decode([each.user_metadata.summary], [str]))[0]
        for each in events
        if each.HasField("user_metadata") and each.user_metadata.HasField("summary")
    ]


async def has_status(home: Home, workflow_id: str, status: str) -> None:
    async def look() -> bool:
        return (await described(home, workflow_id)).typed_search_attributes.get(STATUS) == status

    await eventually_async(look)


async def test_a_session_can_be_found_by_its_namespace_id_and_status(simulated: Home) -> None:
    session = (await simulated.create("key", title="fix the parser")).session_id
    namespace = simulated.settings.namespace
    workflow_id = session_workflow_id(namespace, session)
    first = await described(simulated, workflow_id)
    assert shown(first) == (namespace, session, "waiting")
    assert await first.static_summary() == "session fix the parser"
    await simulated.client.send(session, "ask")
    await has_status(simulated, workflow_id, "question")
    asked_at = (await described(simulated, workflow_id)).typed_search_attributes.get(ACTIVITY_AT)
    assert asked_at is not None
    assert asked_at >= first.start_time

    async def listed() -> list[str]:
        query = f"MusterNamespace = '{namespace}' AND MusterStatus = 'question'"
        return [each.id async for each in simulated.temporal.list_workflows(query)]

    assert await eventually_async(listed) == [workflow_id]


async def test_creation_and_close_show_the_session_and_that_they_are_done(
    simulated: Home,
) -> None:
    created = await simulated.create("key")
    session, namespace = created.session_id, simulated.settings.namespace
    await simulated.client.close(session)
    close = close_workflow_id(namespace, session, created.incarnation)
    for workflow_id, summary in (
        (creation_id(simulated, "key"), f"create session {session}"),
        (close, f"close session {session}"),
    ):
        description = await described(simulated, workflow_id)
        assert shown(description) == (namespace, session, "done")
        assert await description.static_summary() == summary
    await has_status(simulated, session_workflow_id(namespace, session), "done")


async def test_every_activity_and_timer_says_what_it_is_for(simulated: Home) -> None:
    created = await simulated.create("key", title="a title")
    session, namespace = created.session_id, simulated.settings.namespace
    await simulated.client.send(session, "ask")
    question = (await simulated.question(session)).question_id
    await simulated.client.answer(session, question, "allow")
    await simulated.client.wait(session, "idle", within=15)
    await simulated.client.close(session)
    told = []
    for workflow_id in (
        creation_id(simulated, "key"),
        session_workflow_id(namespace, session),
        close_workflow_id(namespace, session, created.incarnation),
    ):
        history = await simulated.history(workflow_id)
        steps = [each for each in history.events if is_step(each)]
        said = await summaries(steps)
        assert len(said) == len(steps)
        told += said
    assert f"answer {question}" in told
    assert "claim the key" in told


def is_step(event: HistoryEvent) -> bool:
    """A regular activity, a local one's record, or a timer."""
    return any(
        event.HasField(name)
        for name in (
            "activity_task_scheduled_event_attributes",
            "marker_recorded_event_attributes",
            "timer_started_event_attributes",
        )
    )


async def test_the_details_of_a_workflow_are_a_table_of_its_state(simulated: Home) -> None:
    session = (await simulated.create("key")).session_id
    sent = await simulated.client.send(session, "hold")
    await simulated.runs_turn(session, sent.turn_id)
    workflow_id = session_workflow_id(simulated.settings.namespace, session)
    handle = simulated.temporal.get_workflow_handle(workflow_id)
    metadata = await handle.query("__temporal_workflow_metadata")
    assert "| status | working |" in str(metadata)
    assert f"| turn | {sent.turn_id} (active) |" in str(metadata)


async def test_a_creation_costs_few_history_events(home: Home) -> None:
    await home.create("key")
    assert len((await home.history(creation_id(home, "key"))).events) <= CREATION_EVENTS


async def test_a_prompt_without_a_question_costs_few_history_events(home: Home) -> None:
    session = (await home.create("key")).session_id
    await settled(home, session)
    before = len((await home.session_history(session)).events)
    await home.run(session, FREELY + "true")
    history = await settled(home, session)
    assert len(history.events) - before <= PROMPT_EVENTS
