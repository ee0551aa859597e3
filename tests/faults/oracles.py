"""What must be true of a system after any fault, looked at from outside.

`check` takes a system whose sessions are idle, looks at all of it, closes what is open and looks
again. Every assertion names what an operator could see: a file, a row, a process, a workflow.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pydantic
from temporalio.api.enums.v1 import EventType, WorkflowTaskFailedCause
from temporalio.client import WorkflowExecutionStatus, WorkflowHistory
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.worker import Replayer, UnsandboxedWorkflowRunner

from muster.domain.changes import AnswerClaimed
from muster.domain.contract import Contract
from muster.domain.contracts import SessionRef
from muster.domain.history import SessionHistory, whole_history
from muster.domain.public_events import PublicEvent
from muster.domain.session_document import SessionDocument
from muster.domain.session_rules import decode_document
from muster.domain.summaries import summary_of
from muster.domain.turn_model import TERMINAL_TURN
from muster.domain.view import view_of
from muster.stores.documents.public_events import PublicEvents
from muster.stores.documents.sessions import SessionSummaries
from muster.stores.files import paths
from muster.stores.files.archive import ArchiveStore
from muster.stores.files.journals import Journals
from muster.stores.files.private import PrivateTree
from muster.stores.files.receipts import ReceiptStore
from muster.worker.wiring import WORKFLOWS
from tests.faults.harness import PATIENCE_SECONDS, System
from tests.waiting import eventually_async

_BENIGN = {WorkflowTaskFailedCause.WORKFLOW_TASK_FAILED_CAUSE_UNHANDLED_COMMAND}
"""The server's own way to say that something arrived while a task ran."""


async def check(system: System) -> None:
    """Every oracle; needs a living worker. The system's sessions are closed afterwards."""
    live = [session for session in system.created if session not in system.closed]
    await asyncio.gather(*(system.idle(session) for session in live))
    await _answers_stay(system)
    events = await sinks_agree(system)
    for session in live:
        document = _document(system, session)
        kept = _kept(system, document)
        _acknowledged_is_readable(system, session, kept)
        _events_follow(document, kept, events)
        await _readers_are_current(system, document)
    for session in live:
        await system.close(session)
    await nothing_left(system)
    await sinks_agree(system)
    await workflows_ended_well(system)


async def _answers_stay(system: System) -> None:
    """The same key hears the same first answer."""
    for each in list(system.acknowledged):
        if each.session in system.closed:
            continue
        again = await each.again()
        assert first_answer(again) == first_answer(each.answer)


def first_answer(answer: Contract) -> dict[str, object]:
    """An answer without what says that it is a repeat, or how far its effect has come since."""
    later = {"repeated", "response"}
    if isinstance(answer, AnswerClaimed):
        later.add("status")
    return answer.model_dump(exclude=later)


async def sinks_agree(system: System) -> list[PublicEvent]:
    """The journal has every event once without a gap, and MongoDB has the same."""
    journal = Journals(PrivateTree(system.state_root)).of(system.name)
    events: list[PublicEvent] = []
    while (page := journal.read(len(events))).events:
        assert page.damaged == ()
        events += page.events
    journal.close()
    assert [each.seq for each in events] == list(range(1, len(events) + 1))
    ids = [each.public_event_id for each in events]
    assert len(set(ids)) == len(ids), "an event is in the journal twice"
    stored: list[PublicEvent] = []
    sink = PublicEvents(system.mongo)
    while found := await sink.read(system.name, len(stored)):
        stored += found
    assert stored == events
    return events


def _document(system: System, session: str) -> SessionDocument:
    """The session's document; reading it checks every rule."""
    path = system.state_root / paths.session_document(system.name, session)
    document = decode_document(path.read_bytes(), system.name, session)
    incarnation = document.canonical.session.broker.endpoint_incarnation
    assert incarnation == system.created[session].incarnation
    return document


def _kept(system: System, document: SessionDocument) -> list[SessionHistory]:
    """What the document holds, and what has left it for its archive."""
    archive = ArchiveStore(PrivateTree(system.state_root))
    ref = SessionRef(
        namespace_id=document.namespace_id,
        session_id=document.session_id,
        incarnation=document.canonical.session.broker.endpoint_incarnation,
    )
    archived = [archive.read(ref, name) for name in archive.segments(ref)]
    return [whole_history(document), *(each for each in archived if each is not None)]


def _acknowledged_is_readable(system: System, session: str, kept: list[SessionHistory]) -> None:
    """What a caller was told is on record: its request, and the turn it names."""
    known: set[str] = set()
    for part in kept:
        known |= {each.request_id for each in part.prompts.values()}
        known |= {each.request_id for each in part.answers.values()}
        known |= set(part.operations)
    turns = {turn for part in kept for turn in part.turns}
    for each in system.acknowledged:
        if each.session != session:
            continue
        fields = each.answer.model_dump()
        assert fields.get("request_id", fields.get("operation_id")) in known
        if "turn_id" in fields:
            assert fields["turn_id"] in turns


def _events_follow(
    document: SessionDocument, kept: list[SessionHistory], events: Sequence[PublicEvent]
) -> None:
    """The session's events are one chain of revisions that tells each turn's life once."""
    own = [each for each in events if each.session_id == document.session_id]
    revisions = [each.revision for each in own]
    assert revisions == sorted(revisions), "events of a session are out of order"
    assert revisions[-1] <= document.revision
    kinds = [each.kind for each in own]
    assert kinds.count("session.created") == 1
    for turn in (turn for part in kept for turn in part.turns.values()):
        told = [each.kind for each in own if each.entity_id == turn.turn_id]
        assert told.count("turn.queued") == 1
        ends = [kind for kind in told if kind.removeprefix("turn.") in TERMINAL_TURN]
        assert ends == [f"turn.{turn.status}"], f"turn {turn.turn_id} is {turn.status}: {told}"


async def _readers_are_current(system: System, document: SessionDocument) -> None:
    """The readers' copy is what follows from the document."""
    summaries = SessionSummaries(system.mongo)
    names = (document.namespace_id, document.session_id)

    async def current() -> bool:
        summary, view = await summaries.get(*names), await summaries.get_view(*names)
        return summary == summary_of(document) and view == view_of(document)

    await eventually_async(current)


async def nothing_left(system: System) -> None:
    """After the last close: tombstones, receipts and the journal, and no process."""
    assert system.living_agents() == 0
    receipts = ReceiptStore(PrivateTree(system.state_root))
    for session, closed in system.closed.items():
        tombstone = receipts.tombstone(system.name, closed.deletion_id)
        assert tombstone is not None
        assert tombstone.answer == closed
        folder = system.state_root / paths.session_folder(system.name, session)
        assert not folder.exists(), f"left: {list(folder.rglob('*'))}"
        summary = await SessionSummaries(system.mongo).get(system.name, session)
        assert summary is not None
        assert summary.closed_at == closed.completed_at
    # Nobody but a killed writer leaves one, and none is ever read.
    assert len(_temporary_files(system.state_root)) <= system.kills


def _temporary_files(root: Path) -> list[str]:
    return [str(each.relative_to(root)) for each in root.rglob(".tmp-*")]


async def workflows_ended_well(system: System) -> None:
    """Each workflow has completed, no task of it failed, and it replays."""
    histories = await _histories(system)
    for history in histories:
        failed = [
            event.workflow_task_failed_event_attributes
            for event in history.events
            if event.event_type == EventType.EVENT_TYPE_WORKFLOW_TASK_FAILED
        ]
        worse = [each for each in failed if each.cause not in _BENIGN]
        assert worse == [], f"{history.workflow_id}: {worse}"
    # The sandbox would cost half of the time of all kills, and is on in the workers themselves.
    replayer = Replayer(
        workflows=WORKFLOWS,
        workflow_runner=UnsandboxedWorkflowRunner(),
        data_converter=pydantic_data_converter,
        workflow_failure_exception_types=[pydantic.ValidationError],
    )

    async def each_history() -> AsyncIterator[WorkflowHistory]:
        for history in histories:
            yield history

    await replayer.replay_workflows(each_history())


async def _histories(system: System) -> list[WorkflowHistory]:
    """The histories of the system's workflows, once all have ended."""
    # A creation, the session itself and a close for each.
    expected = 3 * len(system.created)

    async def ended() -> list[WorkflowHistory]:
        query = f"MusterNamespace = '{system.name}'"
        found = [each async for each in system.temporal.list_workflows(query)]
        if len(found) < expected or any(
            each.status == WorkflowExecutionStatus.RUNNING for each in found
        ):
            return []
        for each in found:
            assert each.status in (
                WorkflowExecutionStatus.COMPLETED,
                WorkflowExecutionStatus.CONTINUED_AS_NEW,
            ), f"{each.id}: {each.status}"
        handles = [
            system.temporal.get_workflow_handle(each.id, run_id=each.run_id) for each in found
        ]
        return list(await asyncio.gather(*(each.fetch_history() for each in handles)))

    return await eventually_async(ended, within=PATIENCE_SECONDS, every=0.2)
