"""Repair, reconciliation and the archive: the lost is rebuilt, what was left behind is done."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest
from temporalio.client import WorkflowExecutionStatus
from temporalio.common import SearchAttributeKey

from muster.client import requests
from muster.client.care import SessionCare
from muster.domain.changes import AcceptPrompt
from muster.domain.contracts import ReconcileTotals, SessionRef
from muster.domain.errors import ResourceGone, StateCorrupt
from muster.domain.identifiers import session_workflow_id
from muster.domain.session_document import SessionDocument
from muster.domain.summaries import SessionSummary
from muster.domain.turn_model import TurnStatus
from muster.domain.view import TurnView
from muster.stores.files.archive import ArchiveStore
from muster.stores.files.private import PrivateTree
from muster.stores.files.sessions import SessionStore
from tests.waiting import eventually_async
from tests.workflows.support import FREELY, Home


def _store(home: Home) -> SessionStore:
    """The documents as another process opens them."""
    tree = PrivateTree(home.settings.state_root)
    return SessionStore(tree, ArchiveStore(tree))


def _document(home: Home, session: str) -> Path:
    return home.namespace_folder / "sessions" / session / "session.json"


def _damage(home: Home, session: str) -> None:
    path = _document(home, session)
    path.write_bytes(b"\0" * path.stat().st_size)


async def _published(home: Home, session: str) -> SessionSummary:
    """The session's summary once readers have all that its document says."""

    async def look() -> SessionSummary | None:
        document = _store(home).read(home.settings.namespace, session)
        summary = await home.client.sessions.get(session)
        if document is None or summary.revision != document.revision:
            return None
        # While a turn runs its events are published and acknowledged only once it ends.
        owed = any(each.public_delivery.journal_seq is None for each in document.outbox.values())
        return summary if document.canonical.queue.active_turn_id or not owed else None

    found = await eventually_async(look)
    assert found is not None
    return found


async def _summary(home: Home, session: str, fits: Callable[[SessionSummary], bool]) -> None:
    async def look() -> bool:
        return fits(await home.client.sessions.get(session))

    await eventually_async(look)


def _accept(home: Home, ref: SessionRef, key: str, text: str) -> SessionDocument:
    """Commit a prompt as a worker did that died before its workflow, and caller, heard of it."""
    store = _store(home)
    command: AcceptPrompt = requests.prompt_command(
        ref.namespace_id,
        ref.session_id,
        key,
        requests.prompt_content(text),
        "turn.follow_up",
        "client",
    )
    document = store.require(ref)
    at = document.canonical.session.updated_at
    return store.commit(ref, document.revision, command, at).document


async def _session(home: Home) -> SessionRef:
    created = await home.create()
    await _published(home, created.session_id)
    return SessionRef(
        namespace_id=created.namespace_id,
        session_id=created.session_id,
        incarnation=created.incarnation,
    )


# Repair


async def test_a_session_whose_document_was_lost_is_rebuilt_and_goes_on(home: Home) -> None:
    session = (await home.create()).session_id
    first = await home.run(session, FREELY + "echo one > one.txt", key="one")
    before = await _published(home, session)
    _damage(home, session)
    with pytest.raises(StateCorrupt, match="muster session repair"):
        await home.client.send(session, FREELY + "echo two > two.txt", key="two")
    await _summary(home, session, lambda found: found.needs_repair is not None)
    answer = await SessionCare(home.client).repair(session)
    assert answer.rebuilt
    assert answer.revision > before.revision
    assert "what was committed after that and not yet projected isn't known" in answer.notes[0]
    await _summary(home, session, lambda found: found.needs_repair is None)
    second = await home.run(session, FREELY + "echo two > two.txt", key="two")
    assert second.status is TurnStatus.COMPLETED
    assert (home.cwd / "two.txt").read_text() == "two\n"
    repeated = await home.client.send(session, FREELY + "echo one > one.txt", key="one")
    assert (repeated.turn_id, repeated.repeated) == (first.turn_id, True)


async def test_a_lost_document_is_rebuilt_in_the_middle_of_a_turn(simulated: Home) -> None:
    session = (await simulated.create()).session_id
    running = await simulated.client.send(session, "hold")
    await simulated.runs_turn(session, running.turn_id)
    queued = await simulated.client.send(session, "next", operation="turn.follow_up")
    await _published(simulated, session)
    _damage(simulated, session)
    answer = await SessionCare(simulated.client).repair(session)
    assert answer.rebuilt
    await simulated.client.stop(session, keep_queue=True)
    assert (await simulated.ended(session, running.turn_id)).status is TurnStatus.CANCELLED
    assert (await simulated.ended(session, queued.turn_id)).status is TurnStatus.COMPLETED
    assert simulated.agent(session).prompts == ["hold", "next"]


async def test_a_turn_that_ends_while_the_document_is_lost_ends_once_it_is_rebuilt(
    simulated: Home,
) -> None:
    ref = await _session(simulated)
    running = await simulated.client.send(ref.session_id, "hold")
    await simulated.runs_turn(ref.session_id, running.turn_id)
    await _published(simulated, ref.session_id)
    _damage(simulated, ref.session_id)
    agent = simulated.agent(ref.session_id)
    async with agent.news:
        agent.end("end_turn")
        agent.news.notify_all()
    await _summary(simulated, ref.session_id, lambda found: found.needs_repair is not None)
    assert (await SessionCare(simulated.client).repair(ref.session_id)).rebuilt
    assert (await simulated.ended(ref.session_id, running.turn_id)).status is TurnStatus.COMPLETED
    assert (await simulated.run(ref.session_id, "go on")).status is TurnStatus.COMPLETED
    assert agent.prompts == ["hold", "go on"]


async def test_a_repair_of_a_good_session_says_so_and_mends_readers_files(
    simulated: Home,
) -> None:
    ref = await _session(simulated)
    care = SessionCare(simulated.client)
    good = await care.repair(ref.session_id)
    assert (good.rebuilt, good.projections_mended, good.notes) == (False, 0, ())
    projection = _document(simulated, ref.session_id).parent / "projection" / "session.json"
    projection.unlink()
    assert (await care.repair(ref.session_id)).projections_mended == 1
    assert projection.exists()


async def test_what_can_not_be_rebuilt_is_refused_with_what_is_missing(simulated: Home) -> None:
    ref = await _session(simulated)
    _damage(simulated, ref.session_id)
    (_document(simulated, ref.session_id).parent / "projection" / "session.json").write_text("{}")
    with pytest.raises(ResourceGone, match=r"neither a document nor a readable projection"):
        await SessionCare(simulated.client).repair(ref.session_id)
    with pytest.raises(StateCorrupt):
        await simulated.client.send(ref.session_id, "anything")


# Reconciliation


async def test_work_that_only_the_document_knows_of_is_done_once(simulated: Home) -> None:
    ref = await _session(simulated)
    document = _accept(simulated, ref, "unheard", "unheard of")
    (turn,) = document.canonical.turns
    assert (await simulated.control(ref.session_id)).active is None
    care = SessionCare(simulated.client)
    totals = await care.reconcile()
    assert (totals.seen, totals.nudged, totals.session_ids) == (1, 1, (ref.session_id,))
    assert (await simulated.ended(ref.session_id, turn)).status is TurnStatus.COMPLETED
    await _published(simulated, ref.session_id)
    assert (await care.reconcile()).nudged == 0
    again = await simulated.client.send(
        ref.session_id, "unheard of", operation="turn.follow_up", key="unheard"
    )
    assert (again.turn_id, again.repeated) == (turn, True)
    assert simulated.agent(ref.session_id).prompts == ["unheard of"]
    (report,) = (await simulated.client.sessions.show(ref.session_id)).reports
    assert (report.turn_id, report.status) == (turn, "completed")


async def test_a_session_whose_workflow_was_terminated_is_started_again(simulated: Home) -> None:
    ref = await _session(simulated)
    handle = simulated.temporal.get_workflow_handle(
        session_workflow_id(ref.namespace_id, ref.session_id)
    )
    await handle.terminate("by an operator")
    with pytest.raises(ResourceGone, match=r"terminated.*muster session repair"):
        await simulated.client.send(ref.session_id, "lost")
    care = SessionCare(simulated.client)
    assert (await care.reconcile()).nudged == 1
    described = await handle.describe()
    assert described.status == WorkflowExecutionStatus.RUNNING
    assert (
        described.typed_search_attributes[SearchAttributeKey.for_keyword("MusterSession")]
        == ref.session_id
    )
    assert (await simulated.run(ref.session_id, "found")).status is TurnStatus.COMPLETED
    assert (await care.reconcile()).nudged == 0


async def test_a_turn_whose_workflow_was_terminated_is_followed_to_its_end(
    simulated: Home,
) -> None:
    ref = await _session(simulated)
    running = await simulated.client.send(ref.session_id, "hold")
    await simulated.runs_turn(ref.session_id, running.turn_id)
    workflow_id = session_workflow_id(ref.namespace_id, ref.session_id)
    await simulated.temporal.get_workflow_handle(workflow_id).terminate("by an operator")
    assert (await SessionCare(simulated.client).reconcile()).nudged == 1
    await simulated.client.stop(ref.session_id)
    assert (await simulated.ended(ref.session_id, running.turn_id)).status is TurnStatus.CANCELLED
    assert simulated.agent(ref.session_id).prompts == ["hold"]


async def test_sessions_whose_work_is_being_done_are_left_alone(simulated: Home) -> None:
    idle, busy = await _session(simulated), await _session(simulated)
    running = await simulated.client.send(busy.session_id, "hold")
    await simulated.runs_turn(busy.session_id, running.turn_id)
    await _published(simulated, busy.session_id)
    assert await SessionCare(simulated.client).reconcile() == ReconcileTotals(seen=2)
    closed = await simulated.client.close(idle.session_id)
    assert closed.session_id == idle.session_id
    assert (await SessionCare(simulated.client).reconcile()).nudged == 0


async def test_a_session_that_its_creator_has_not_started_yet_is_left_to_it(
    simulated: Home,
) -> None:
    """Started by anybody else it would never hear of its initial prompt."""
    ref = await _session(simulated)
    workflow_id = session_workflow_id(ref.namespace_id, ref.session_id)
    await simulated.temporal.get_workflow_handle(workflow_id).terminate("never started")
    store = _store(simulated)
    document = store.require(ref)
    path = _document(simulated, ref.session_id)
    first = document.model_copy(update={"revision": 1, "outbox": {}})
    path.unlink()
    store.create(first)
    assert (await SessionCare(simulated.client).reconcile()).nudged == 0


@pytest.mark.parametrize("damage", ["zeroes", "huge", "folder", "stray folders"])
async def test_one_damaged_session_is_marked_and_the_others_are_looked_after(
    simulated: Home, damage: str
) -> None:
    refs = sorted([await _session(simulated) for _ in range(3)], key=lambda ref: ref.session_id)
    bad, good = refs[0], refs[2]
    path = _document(simulated, bad.session_id)
    if damage == "zeroes":
        _damage(simulated, bad.session_id)
    elif damage == "huge":
        with path.open("r+b") as file:
            file.truncate(8 << 20)
    else:
        path.unlink()
        path.mkdir()
    if damage == "stray folders":
        (path.parents[1] / ".hidden").mkdir()
        (path.parents[1] / "not a session").mkdir()
    (turn,) = _accept(simulated, good, "k", "left behind").canonical.turns
    totals = await SessionCare(simulated.client).reconcile()
    assert (totals.seen, totals.nudged, totals.needs_repair) == (3, 1, 1)
    assert totals.session_ids == (bad.session_id, good.session_id)
    marked = await simulated.client.sessions.get(bad.session_id)
    assert marked.needs_repair is not None
    listed = (await simulated.client.sessions.list()).summaries
    assert {each.session_id for each in listed} == {each.session_id for each in refs}
    assert (await simulated.ended(good.session_id, turn)).status is TurnStatus.COMPLETED


# The archive

LONG = "y" * 30_000


async def _worked(home: Home, turns: int) -> SessionRef:
    """A session with so long a life that turns have left its document."""
    ref = await _session(home)
    for number in range(turns):
        await home.run(ref.session_id, f"{number} {LONG}")
    return ref


async def test_archived_turns_are_read_in_pages_newest_first_each_once(simulated: Home) -> None:
    ref = await _worked(simulated, 12)
    kept = {turn.turn_id for turn in (await simulated.client.sessions.show(ref.session_id)).turns}
    care = SessionCare(simulated.client)
    whole = await care.history(ref.session_id, limit=100)
    assert whole.next_before is None
    assert whole.unreadable == ()
    numbers = [int(each.prompt.text.split()[0]) for each in whole.turns]
    assert numbers == list(range(len(numbers)))[::-1]
    assert len(numbers) + len(kept) == 12
    assert whole.turns[0].prompt.truncated
    paged: list[TurnView] = []
    before = None
    while True:
        page = await care.history(ref.session_id, limit=1, before=before)
        paged += page.turns
        before = page.next_before
        if before is None:
            break
    assert tuple(paged) == whole.turns
    first = await simulated.client.send(ref.session_id, f"0 {LONG}", key="another")
    assert first.turn_id not in {each.turn_id for each in whole.turns}


async def test_a_session_without_an_archive_has_an_empty_history(simulated: Home) -> None:
    ref = await _session(simulated)
    page = await SessionCare(simulated.client).history(ref.session_id)
    assert (page.turns, page.next_before, page.unreadable) == ((), None, ())


async def test_a_damaged_archive_file_is_named_and_the_others_are_read(simulated: Home) -> None:
    ref = await _worked(simulated, 12)
    care = SessionCare(simulated.client)
    whole = await care.history(ref.session_id, limit=100)
    folder = _document(simulated, ref.session_id).parent / "history" / ref.incarnation
    oldest, *others = sorted(folder.glob("*.json"))
    assert others
    await asyncio.to_thread(oldest.write_bytes, b"\0" * 10)
    page = await care.history(ref.session_id, limit=100)
    assert page.turns == whole.turns[: len(page.turns)]
    assert 0 < len(page.turns) < len(whole.turns)
    assert oldest.name in page.unreadable[0]
