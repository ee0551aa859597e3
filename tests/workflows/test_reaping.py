"""Sessions that nobody has used for as long as their creator allowed are closed, others never."""

from __future__ import annotations

from muster.client.schedules import install_schedules, namespace_schedules
from muster.domain.contracts import ReapInput, Workflows
from muster.domain.session_document import SessionPolicy
from muster.domain.summaries import SessionSummary
from tests.waiting import eventually_async
from tests.workflows.support import Home

SOON = SessionPolicy(idle_close_seconds=1)
SOON_EVEN_ASKING = SessionPolicy(idle_close_seconds=1, idle_close_with_question=True)


async def reap(home: Home) -> int:
    """One run of what the schedule starts; how many closes it began."""
    begun: int = await home.temporal.execute_workflow(
        Workflows.REAP_IDLE_SESSIONS,
        ReapInput(namespace_id=home.settings.namespace, placement=home.settings.placement),
        id=f"reap/{home.settings.namespace}",
        task_queue=home.settings.placement.root_queue,
        result_type=int,
    )
    return begun


async def is_reaped(home: Home, session: str) -> SessionSummary:
    """Return once reaping has closed a session."""

    async def look() -> SessionSummary | None:
        await reap(home)
        found = await home.client.sessions.get(session)
        return found if found.closed_at is not None else None

    found = await eventually_async(look, every=0.3)
    assert found is not None
    return found


async def test_an_idle_session_is_closed_and_its_history_kept(simulated: Home) -> None:
    idle = (await simulated.create(policy=SOON)).session_id
    await simulated.run(idle, "work")
    await is_reaped(simulated, idle)
    assert simulated.agent(idle).gone
    folder = simulated.namespace_folder / "sessions" / idle
    assert [each.name for each in folder.iterdir()] == ["history"]


async def test_what_works_asks_or_has_no_limit_or_a_longer_one_is_left_alone(
    simulated: Home,
) -> None:
    spared = {
        "without a limit": (await simulated.create()).session_id,
        "with a longer one": (
            await simulated.create(policy=SessionPolicy(idle_close_seconds=3_600))
        ).session_id,
        "working": (await simulated.create(policy=SOON)).session_id,
        "asking": (await simulated.create(policy=SOON)).session_id,
    }
    await simulated.client.send(spared["working"], "hold")
    await simulated.client.send(spared["asking"], "ask")
    question = await simulated.question(spared["asking"])
    # Created last: once this one's time is over, so is the others'.
    await is_reaped(simulated, (await simulated.create(policy=SOON)).session_id)
    assert await reap(simulated) == 0
    for session in spared.values():
        assert (await simulated.client.sessions.get(session)).closed_at is None
        assert not simulated.agent(session).gone
    answered = await simulated.client.answer(spared["asking"], question.question_id, "allow")
    assert answered.status == "accepted"


async def test_a_question_is_no_obstacle_where_the_policy_says_so(simulated: Home) -> None:
    session = (await simulated.create(policy=SOON_EVEN_ASKING)).session_id
    await simulated.client.send(session, "ask")
    await simulated.question(session)
    await is_reaped(simulated, session)
    assert simulated.agent(session).gone


async def test_the_schedules_are_installed_can_be_paused_and_triggered(simulated: Home) -> None:
    namespace, placement = simulated.settings.namespace, simulated.settings.placement
    installed = await install_schedules(simulated.temporal, namespace, placement)
    assert installed == list(namespace_schedules(namespace, placement))
    session = (await simulated.create(policy=SOON)).session_id
    handle = simulated.temporal.get_schedule_handle(f"reap/{namespace}")
    try:
        await handle.pause(note="by a person")
        assert await install_schedules(simulated.temporal, namespace, placement) == installed
        assert (await handle.describe()).schedule.state.paused

        async def closed() -> bool:
            await handle.trigger()
            return (await simulated.client.sessions.get(session)).closed_at is not None

        await eventually_async(closed, every=0.5)
    finally:
        for each in installed:
            await simulated.temporal.get_schedule_handle(each).delete()
