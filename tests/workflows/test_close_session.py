"""Closing: refused while a turn runs, forced, the same answer each time, nothing left behind."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from pathlib import Path

import pytest

from muster.client.care import SessionCare
from muster.domain.control import MusterStatus
from muster.domain.errors import (
    ActiveTurnExists,
    EndpointStale,
    IdempotencyConflict,
    ResourceGone,
    SessionNotIdle,
)
from muster.domain.turn_model import TERMINAL_TURN, TurnStatus
from muster.runtimes.acp import layout
from muster.stores.documents.connection import connect
from muster.stores.documents.public_events import PublicEvents
from muster.stores.files.journals import Journals
from muster.stores.files.private import PrivateTree
from muster.stores.files.receipts import ReceiptStore
from muster.worker.agents import end_agents
from tests.waiting import eventually_async
from tests.workflows.mongo_gate import MongoGate
from tests.workflows.support import FREELY, Home


async def test_a_closed_session_leaves_its_tombstone_and_nothing_that_runs(home: Home) -> None:
    created = await home.create()
    session = created.session_id
    folder = home.settings.state_root / created.endpoint_url.removeprefix("acp:")
    await home.run(session, FREELY + "touch kept.txt")
    assert layout.is_alive(folder)
    answer = await home.client.close(session)
    assert answer.incarnation == created.incarnation
    assert not answer.runtime_already_gone
    assert not layout.is_alive(folder)
    assert not (home.namespace_folder / "sessions" / session).exists()
    assert (home.namespace_folder / "deletions" / f"{answer.deletion_id}.json").exists()
    assert list((home.namespace_folder / "keys").iterdir()) == []
    assert (home.cwd / "kept.txt").exists()
    assert (await home.client.sessions.get(session)).closed_at == answer.completed_at


async def test_every_event_is_in_the_journal_before_the_session_is_gone(simulated: Home) -> None:
    session = (await simulated.create()).session_id
    for n in range(3):
        await simulated.client.send(session, f"step {n}", operation="turn.follow_up")
    await simulated.client.wait(session, "idle", within=15)
    answer = await simulated.client.close(session)
    journal = Journals(PrivateTree(simulated.settings.state_root)).of(simulated.settings.namespace)
    events = journal.read(0, 1_000).events
    assert [each.seq for each in events] == list(range(1, answer.last_journal_seq + 1))
    assert events[0].kind == "session.created"
    assert [each.kind for each in events[-2:]] == ["session.closing", "session.closed"]
    assert events[-1].entity_id == answer.deletion_id
    assert sum(each.kind == "turn.completed" for each in events) == 3


async def test_a_close_that_lasts_is_shown_and_in_the_journal_meanwhile(simulated: Home) -> None:
    session = (await simulated.create()).session_id
    simulated.runtime.unavailable["close"] = 10_000
    closing = asyncio.create_task(simulated.client.close(session))

    async def shown() -> bool:
        return (await simulated.client.sessions.get(session)).status is MusterStatus.CLOSING

    await eventually_async(shown)
    journal = Journals(PrivateTree(simulated.settings.state_root)).of(simulated.settings.namespace)
    assert journal.read(0, 1_000).events[-1].kind == "session.closing"
    assert not closing.done()
    simulated.runtime.unavailable.clear()
    answer = await closing
    events = journal.read(0, 1_000).events
    assert [each.kind for each in events[-2:]] == ["session.closing", "session.closed"]
    assert events[-1].seq == answer.last_journal_seq


async def test_a_forced_close_shows_how_its_turn_ended(simulated: Home) -> None:
    session = (await simulated.create()).session_id
    sent = await simulated.client.send(session, "hold")
    await simulated.runs_turn(session, sent.turn_id)
    await simulated.client.close(session, force=True)
    turn = await simulated.client.sessions.turn(session, sent.turn_id)
    assert turn is not None
    assert turn.status in TERMINAL_TURN


async def test_a_close_is_refused_while_a_turn_runs_and_changes_nothing(simulated: Home) -> None:
    session = (await simulated.create()).session_id
    sent = await simulated.client.send(session, "hold")
    with pytest.raises(ActiveTurnExists) as refused:
        await simulated.client.close(session)
    assert refused.value.details["turn_id"] == sent.turn_id
    await simulated.client.stop(session)
    await simulated.ended(session, sent.turn_id)
    assert (await simulated.client.close(session)).settled_turn_ids == ()


async def test_a_forced_close_settles_the_turn_and_the_queue_and_says_so(simulated: Home) -> None:
    session = (await simulated.create()).session_id
    running = await simulated.client.send(session, "ask")
    queued = await simulated.client.send(session, "never", operation="turn.follow_up")
    await simulated.question(session)
    answer = await simulated.client.close(session, force=True)
    assert set(answer.settled_turn_ids) == {running.turn_id, queued.turn_id}
    assert simulated.agent(session).gone
    assert simulated.agent(session).prompts == ["ask"]


async def test_closing_twice_gives_the_same_answer_at_once_later_and_from_the_tombstone(
    simulated: Home, forgetful: Home
) -> None:
    created = await simulated.create()
    session, incarnation = created.session_id, created.incarnation
    first, second = await asyncio.gather(
        simulated.client.close(session), simulated.client.close(session)
    )
    assert first == second
    assert await simulated.client.close(session, incarnation=incarnation) == first
    assert await forgetful.client.close(session, incarnation=incarnation) == first
    assert simulated.runtime.calls["close"] == 1


async def test_a_close_with_other_options_under_the_same_key_is_a_conflict(
    simulated: Home,
) -> None:
    created = await simulated.create()
    await simulated.client.close(created.session_id, key="k")
    with pytest.raises(IdempotencyConflict):
        await simulated.client.close(
            created.session_id, incarnation=created.incarnation, key="k", keep_history=True
        )


async def test_a_close_of_an_earlier_life_leaves_the_present_one_alone(simulated: Home) -> None:
    await simulated.create("one", session_id="builder")
    with pytest.raises(EndpointStale):
        await simulated.client.close("builder", incarnation="inc-of-another-life")
    assert (await simulated.run("builder", "go on")).status is TurnStatus.COMPLETED


async def test_a_session_that_was_active_lately_is_not_closed_as_idle(simulated: Home) -> None:
    session = (await simulated.create()).session_id
    await simulated.run(session, "work")
    with pytest.raises(SessionNotIdle):
        await simulated.client.close(session, idle_for=timedelta(hours=1))
    assert (await simulated.run(session, "go on")).status is TurnStatus.COMPLETED


async def test_a_closed_session_takes_no_prompt_and_says_that_it_is_closed(
    simulated: Home,
) -> None:
    session = (await simulated.create()).session_id
    await simulated.client.close(session)
    with pytest.raises(ResourceGone, match="closed"):
        await simulated.client.send(session, "too late")


async def test_an_agent_that_has_already_ended_is_no_reason_not_to_close(home: Home) -> None:
    created = await home.create()
    await end_agents(home.settings.state_root)
    answer = await home.client.close(created.session_id)
    assert answer.runtime_already_gone
    assert not (home.namespace_folder / "sessions" / created.session_id).exists()


async def test_a_close_under_another_key_hears_that_the_session_was_closed(
    simulated: Home,
) -> None:
    created = await simulated.create()
    first = await simulated.client.close(created.session_id, key="mine")
    with pytest.raises(IdempotencyConflict, match="was closed with another key") as refused:
        await simulated.client.close(
            created.session_id, incarnation=created.incarnation, key="yours"
        )
    assert refused.value.details["completed_at"] == first.completed_at


async def test_the_tombstone_names_every_turn_and_report_that_went(simulated: Home) -> None:
    session = (await simulated.create()).session_id
    turns = [(await simulated.run(session, f"step {n}")).turn_id for n in range(3)]
    await simulated.client.report(session, "done", "all of it")
    view = await simulated.client.sessions.show(session)
    answer = await simulated.client.close(session)
    tombstone = ReceiptStore(PrivateTree(simulated.settings.state_root)).tombstone(
        simulated.settings.namespace, answer.deletion_id
    )
    assert tombstone is not None
    assert sorted(tombstone.turn_ids) == sorted(turns)
    assert {each.report_id for each in view.reports} <= set(tombstone.report_ids)
    assert len(tombstone.report_ids) == 4
    assert tombstone.answer == answer


async def test_a_kept_history_shows_every_turn_after_the_close_and_nothing_else_is_kept(
    simulated: Home,
) -> None:
    created = await simulated.create()
    session = created.session_id
    turns = [(await simulated.run(session, f"step {n}")).turn_id for n in range(3)]
    answer = await simulated.client.close(session, keep_history=True)
    assert answer.kept_history
    folder = simulated.namespace_folder / "sessions" / session
    assert [each.name for each in folder.iterdir()] == ["history"]
    page = await SessionCare(simulated.client).history(session)
    assert sorted(each.turn_id for each in page.turns) == sorted(turns)


async def test_a_session_id_lives_again_beside_the_history_of_its_earlier_life(
    simulated: Home,
) -> None:
    first = await simulated.create("one", session_id="builder")
    await simulated.run("builder", "first life")
    await simulated.client.close("builder", keep_history=True)
    second = await simulated.create("two", session_id="builder")
    assert second.incarnation != first.incarnation
    await simulated.run("builder", "second life")
    await simulated.client.close("builder")
    folder = simulated.namespace_folder / "sessions" / "builder"
    kept = [str(each.relative_to(folder)) for each in folder.rglob("*") if each.is_file()]
    assert all(name.startswith(f"history/{first.incarnation}/") for name in kept)
    assert kept


async def test_whatever_the_working_directory_is_a_close_leaves_what_is_in_it(
    home: Home, tmp_path: Path
) -> None:
    outside = tmp_path / "real"
    outside.mkdir()
    link = tmp_path / "link"
    link.symlink_to(outside)
    within = home.settings.state_root / "work"
    within.mkdir()
    for cwd in (link, within):
        session = (await home.create(cwd=str(cwd))).session_id
        await home.run(session, FREELY + "mkdir -p deep && touch deep/kept")
        own = home.namespace_folder / "sessions" / session
        (own / "projection" / "escape").symlink_to(cwd)
        await home.client.close(session)
        assert not own.exists()
        assert (cwd / "deep" / "kept").exists()


async def test_a_session_closed_while_mongodb_is_away_is_gone_once_its_events_are_there(
    behind_gate: Home, gate: MongoGate, mongo_uri: str
) -> None:
    created = await behind_gate.create()
    session = created.session_id
    await behind_gate.run(session, "work")
    await gate.shut()
    closing = asyncio.create_task(
        behind_gate.client.close(session, incarnation=created.incarnation, within=60)
    )
    document = behind_gate.namespace_folder / "sessions" / session / "session.json"

    async def drains() -> bool:
        return behind_gate.agent(session).gone

    await eventually_async(drains)
    assert document.exists()
    await gate.open()
    answer = await closing
    assert not document.exists()
    async with connect(mongo_uri, behind_gate.settings.mongo_database) as mongo:
        stored = await PublicEvents(mongo).read(behind_gate.settings.namespace)
    journal = Journals(PrivateTree(behind_gate.settings.state_root))
    assert stored == journal.of(behind_gate.settings.namespace).read(0).events
    last = [each for each in stored if each.session_id == session][-1]
    assert (last.kind, last.seq) == ("session.closed", answer.last_journal_seq)
