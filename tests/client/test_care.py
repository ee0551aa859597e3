"""An operator's verbs against a running stack: history, repair, reconcile, resolve, schedules."""

from __future__ import annotations

import uuid
from pathlib import Path

import pytest
from temporalio.client import Client, ScheduleUpdate, ScheduleUpdateInput
from temporalio.testing import WorkflowEnvironment

from muster.client import ClientSettings, MusterClient
from muster.client.local_stack import StackInfo
from muster.client.schedules import EVERY, install_schedules
from muster.domain.contracts import ReconcileTotals
from tests.client.conftest import Command
from tests.waiting import eventually_async

UNASKED = "#!muster no-permission\n"
PLACEMENT = ClientSettings(root="nobody", runtime_host="nobody").placement


@pytest.fixture
async def session(muster: Command, folder: Path) -> str:
    """A session that has run one turn."""
    name = f"c-{uuid.uuid4().hex[:8]}"
    created = await muster("session", "create", "--cwd", str(folder), "--session-id", name)
    assert created.status == 0, created
    assert (await muster("session", "send", name, f"{UNASKED}echo one", "--wait")).status == 0
    return name


def _document(stack: StackInfo, session: str) -> Path:
    return Path(stack.state_root) / "v2" / "default" / "sessions" / session / "session.json"


async def _damage(muster: Command, stack: StackInfo, session: str) -> None:
    """Zero-fill the document once readers have all of it, and have somebody notice."""
    path = _document(stack, session)

    async def current() -> bool:
        shown = (await muster("session", "show", session, "--json")).json
        return f'"revision":{shown["revision"]},' in path.read_text()

    await eventually_async(current)
    path.write_bytes(b"\0" * path.stat().st_size)
    refused = await muster("session", "send", session, "anything", "--json")
    assert refused.status == 1
    assert refused.json["error"]["code"] == "state_corrupt"


# Repair


async def test_a_damaged_session_is_listed_as_such_repaired_and_takes_prompts_again(
    muster: Command, stack: StackInfo, session: str
) -> None:
    await _damage(muster, stack, session)
    assert "needs repair" in (await muster("session", "ls", session)).out
    assert "repair" in (await muster("session", "show", session)).out
    said = await muster("session", "repair", session, "--json")
    assert said.status == 0
    assert (said.json["session_id"], said.json["rebuilt"]) == (session, True)
    assert "rebuilt from the readers' files" in said.json["notes"][0]
    assert "needs repair" not in (await muster("session", "ls", session)).out
    sent = await muster("session", "send", session, f"{UNASKED}echo two", "--wait", "--json")
    assert sent.json["response"]["text"].strip() == "two"


async def test_a_repair_says_to_people_what_it_did(
    muster: Command, stack: StackInfo, session: str
) -> None:
    good = await muster("session", "repair", session)
    assert "its document is good" in good.out
    await _damage(muster, stack, session)
    said = await muster("session", "repair", session)
    assert "its document was rebuilt" in said.out
    assert "isn't known" in said.out
    assert (await muster("session", "repair", session, "-q")).out.strip() == session


async def test_a_repair_of_nothing_is_not_found(muster: Command) -> None:
    assert (await muster("session", "repair", "nobody")).status == 4


# History


async def test_the_archive_is_paged_by_the_cursor_that_each_page_gives(
    muster: Command, client: MusterClient, session: str
) -> None:
    assert "nothing has left the document" in (await muster("session", "history", session)).out
    text = f"{UNASKED}: {'x' * 30_000}"
    for number in range(11):
        sent = await client.send(session, f"{text} {number}", operation="turn.follow_up")
    await client.wait_turn(session, sent.turn_id, within=60)
    whole = await muster("session", "history", session, "--limit", "100", "--json")
    turns = [each["turn_id"] for each in whole.lines]
    assert len(turns) > 3
    found: list[str] = []
    cursor: list[str] = []
    while True:
        page = await muster("session", "history", session, "--limit", "1", "-q", *cursor)
        assert page.status == 0
        found += page.out.split()
        if not page.err:
            break
        assert page.err.startswith("more: --before ")
        cursor = page.err.split()[1:]
    assert found == turns
    assert turns[0] in (await muster("session", "history", session)).out
    assert (await muster("session", "history", session, "--limit", "0")).status == 2


# Reconcile


async def test_reconcile_looks_at_every_session_of_the_namespace(
    muster: Command, stack: StackInfo, session: str
) -> None:
    said = await muster("reconcile", "--json")
    assert said.status == 0
    totals = ReconcileTotals.model_validate(said.json)
    assert totals.seen >= 1
    assert "sessions seen" in (await muster("reconcile")).out


async def test_reconcile_names_what_it_nudged(
    muster: Command, client: MusterClient, session: str
) -> None:
    handle = (await client.temporal()).get_workflow_handle(f"session/default/{session}")

    async def settled() -> bool:
        return (await client.control(session)).unacknowledged == 0

    await eventually_async(settled)
    await handle.terminate("by an operator")
    assert session in (await muster("reconcile", "-q")).out.split()
    assert (await muster("session", "send", session, f"{UNASKED}true", "--wait")).status == 0


# Resolve


async def test_there_is_nothing_to_resolve_where_nothing_is_uncertain(
    muster: Command, session: str
) -> None:
    said = await muster("session", "resolve", session, "--retry", "--json")
    assert said.status == 4
    assert "nothing about session" in said.json["error"]["message"]


@pytest.mark.parametrize("given", [(), ("--retry", "--abandon")], ids=["none", "two"])
async def test_one_decision_is_needed(
    muster: Command, session: str, given: tuple[str, ...]
) -> None:
    assert (await muster("session", "resolve", session, *given)).status == 2


# Schedules


async def test_set_up_installs_the_schedules_and_says_so(muster: Command) -> None:
    first, second = await muster("setup", "--json"), await muster("setup", "--json")
    assert first.json["schedules"] == ["reconcile/default", "reap/default"]
    assert second.json["schedules"] == first.json["schedules"]
    assert "every 5 minutes" in (await muster("setup")).out


async def test_a_schedule_can_be_triggered_and_a_pause_survives_the_next_set_up(
    temporal: Client,
) -> None:
    namespace = f"n{uuid.uuid4().hex[:8]}"
    names = await install_schedules(temporal, namespace, PLACEMENT)
    assert names == [f"reconcile/{namespace}", f"reap/{namespace}"]
    handle = temporal.get_schedule_handle(f"reconcile/{namespace}")
    await handle.pause(note="while we look")
    await install_schedules(temporal, namespace, PLACEMENT)
    found = await handle.describe()
    assert found.schedule.state.paused
    assert found.schedule.state.note == "while we look"
    assert [each.every for each in found.schedule.spec.intervals] == [EVERY]
    await handle.trigger()

    async def triggered() -> list[object]:
        return list((await handle.describe()).info.recent_actions)

    assert await eventually_async(triggered)
    for name in names:
        await temporal.get_schedule_handle(name).delete()


async def test_set_up_brings_an_older_schedule_up_to_date(temporal: Client) -> None:
    namespace = f"n{uuid.uuid4().hex[:8]}"
    names = await install_schedules(temporal, namespace, PLACEMENT)
    assert names is not None
    handle = temporal.get_schedule_handle(names[0])

    def rarely(found: ScheduleUpdateInput) -> ScheduleUpdate:
        schedule = found.description.schedule
        schedule.spec.intervals[0].every *= 100
        return ScheduleUpdate(schedule)

    await handle.update(rarely)
    await install_schedules(temporal, namespace, PLACEMENT)
    found = await handle.describe()
    assert [each.every for each in found.schedule.spec.intervals] == [EVERY]
    for name in names:
        await temporal.get_schedule_handle(name).delete()


async def test_a_server_without_schedules_is_said_to_have_none(
    time_skipping: WorkflowEnvironment,
) -> None:
    assert await install_schedules(time_skipping.client, "fleet", PLACEMENT) is None


# Show


async def test_show_draws_turn_queue_question_with_options_and_last_report(
    muster: Command, session: str
) -> None:
    asked = (await muster("session", "send", session, "echo asked", "-q")).out.strip()
    await muster("session", "wait", session, "--for", "question", "--timeout", "30s")
    queued = await muster("session", "send", session, "echo later", "--follow-up", "-q")
    (question,) = (await muster("session", "questions", session, "--json")).lines

    async def drawn() -> str:
        shown = (await muster("session", "show", session)).out
        return shown if queued.out.strip() in shown else ""

    shown = await eventually_async(drawn)
    for wanted in (
        f"running {asked}",
        f"queue {queued.out.strip()}",
        question["question_id"],
        *(each["option_id"] for each in question["options"]),
        "last report completed",
        "echo asked",
    ):
        assert wanted in " ".join(shown.split()), wanted
