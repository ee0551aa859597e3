"""The life of a session by the command, against a running stack."""

from __future__ import annotations

import asyncio
import uuid
from pathlib import Path

import pytest

from muster.client import MusterClient
from muster.domain.errors import ResourceGone
from tests.client.conftest import Command
from tests.waiting import eventually_async

UNASKED = "#!muster no-permission\n"


@pytest.fixture
async def session(muster: Command, folder: Path) -> str:
    """A session that waits for input."""
    name = f"t-{uuid.uuid4().hex[:8]}"
    created = await muster(
        "session", "create", "--cwd", str(folder), "--session-id", name, "--key", name, "--json"
    )
    assert created.status == 0, created
    return name


async def test_a_creation_repeated_under_its_key_gets_the_first_answer(
    muster: Command, session: str, folder: Path
) -> None:
    asked = ["session", "create", "--cwd", str(folder), "--session-id", session, "--key", session]
    first, second = await muster(*asked, "--json"), await muster(*asked, "--json")
    assert first.json == second.json
    assert first.json["session_id"] == session


async def test_another_creation_under_a_key_is_a_conflict_that_names_the_difference(
    muster: Command, session: str, folder: Path
) -> None:
    said = await muster(
        *["session", "create", "--cwd", str(folder), "--session-id", session],
        *["--key", session, "--title", "Another", "--json"],
    )
    assert said.status == 5
    assert said.json["error"]["code"] == "idempotency_conflict"
    assert said.json["error"]["details"]["fields"] == ["title"]


async def test_a_creation_without_waiting_names_its_workflow_and_its_session(
    muster: Command, folder: Path
) -> None:
    said = await muster("session", "create", "--cwd", str(folder), "--no-wait", "--json")
    assert said.status == 0
    created = said.json
    assert created["workflow_id"].startswith("create/default/")
    waited = await muster("session", "create", "--cwd", str(folder), "--key", created["key"], "-q")
    assert waited.out.strip() == created["session_id"]


async def test_a_session_is_created_from_a_file_whose_paths_are_relative_to_it(
    muster: Command, tmp_path: Path
) -> None:
    specs = tmp_path / "specs"
    specs.mkdir()
    spec = specs / "session.yaml"
    spec.write_text("title: From a file\ncwd: ../specs\npolicy:\n  queue_limit: 2\n")
    created = await muster("session", "create", "--file", str(spec), "--title", "Mine", "-q")
    shown = await muster("session", "show", created.out.strip(), "--json")
    assert shown.json["cwd"] == str(specs)
    assert shown.json["title"] == "Mine"


async def test_a_prompt_waited_for_says_what_the_agent_said(muster: Command, session: str) -> None:
    said = await muster("session", "send", session, f"{UNASKED}echo hello", "--wait", "--json")
    assert said.status == 0
    turn = said.json
    assert turn["status"] == "completed"
    assert turn["response"]["text"].strip() == "hello"


async def test_a_prompt_comes_from_a_file(muster: Command, session: str, tmp_path: Path) -> None:
    prompt = tmp_path / "prompt.txt"
    prompt.write_text(f"{UNASKED}echo from a file")
    said = await muster("session", "send", session, "--file", str(prompt), "--wait")
    assert said.status == 0
    assert "from a file" in said.out


async def test_a_prompt_too_long_for_a_document_reaches_the_agent_whole(
    muster: Command, session: str, folder: Path, tmp_path: Path
) -> None:
    text = "x" * 200_000
    prompt = tmp_path / "long.txt"
    prompt.write_text(f"{UNASKED}cat > long.txt <<'END'\n{text}\nEND\n")
    said = await muster("session", "send", session, "--file", str(prompt), "--wait", "--json")
    assert said.json["prompt"]["truncated"]
    assert said.json["prompt"]["length"] == prompt.stat().st_size
    assert (folder / "long.txt").read_text() == f"{text}\n"


async def test_a_turn_that_fails_makes_a_waiting_send_fail(muster: Command, session: str) -> None:
    sent = await muster("session", "send", session, "echo hi", "-q")
    assert (await muster("session", "wait", session, "--for", "question")).status == 0
    assert (await muster("session", "answer", session, "--reject")).status == 0
    await muster("session", "wait", session, "--for", "idle", "--timeout", "30s")
    again = await muster("session", "show", session, "--json")
    turn = next(each for each in again.json["view"]["turns"] if each["turn_id"] == sent.out.strip())
    assert turn["status"] == "failed"
    repeated = await muster("session", "send", session, "exit 1", "--wait", "--timeout", "1s")
    assert repeated.status == 3


async def test_the_same_prompt_under_its_key_runs_once(
    muster: Command, session: str, folder: Path
) -> None:
    prompt = f"{UNASKED}echo ran >> runs"
    asked = ["session", "send", session, prompt, "--key", "mine"]
    assert (await muster(*asked, "--wait")).status == 0
    repeated = await muster(*asked, "--json")
    assert repeated.json["repeated"]
    assert (folder / "runs").read_text() == "ran\n"
    other = await muster("session", "send", session, "echo other", "--key", "mine", "--json")
    assert other.status == 5
    assert other.json["error"]["code"] == "idempotency_conflict"


async def test_a_question_is_answered_once_and_the_second_hears_what_won(
    muster: Command, session: str
) -> None:
    await muster("session", "send", session, "echo asked")
    await muster("session", "wait", session, "--for", "question", "--timeout", "30s")
    (question,) = (await muster("session", "questions", session, "--json")).lines
    identifier = question["question_id"]
    assert (await muster("session", "questions", "-q")).out.split().count(identifier) == 1
    first = await muster("session", "answer", session, identifier[:8], "allow_once", "--json")
    assert first.json["option_id"] == "allow_once"
    second = await muster("session", "answer", session, identifier, "reject_once", "--json")
    assert second.status == 5
    assert second.json["error"]["code"] == "already_answered"
    assert second.json["error"]["details"]["option_id"] == "allow_once"


async def test_an_option_that_was_not_offered_is_refused_with_those_that_were(
    muster: Command, session: str
) -> None:
    await muster("session", "send", session, "echo asked")
    await muster("session", "wait", session, "--for", "question", "--timeout", "30s")
    (question,) = (await muster("session", "questions", session, "-q")).out.split()
    said = await muster("session", "answer", session, question, "perhaps", "--json")
    assert said.status == 2
    assert "allow_once" in said.json["error"]["details"]["options"]


async def test_a_busy_session_refuses_a_prompt_queues_a_follow_up_and_gives_it_back(
    muster: Command, session: str
) -> None:
    await muster("session", "send", session, f"{UNASKED}sleep 60")
    refused = await muster("session", "send", session, "echo no", "--json")
    assert (refused.status, refused.json["error"]["code"]) == (5, "active_turn_exists")
    queued = await muster("session", "send", session, "echo later", "--follow-up", "--json")
    assert queued.json["position"] == 1
    for _ in range(2):
        cancelled = await muster("session", "cancel", session, queued.json["turn_id"])
        assert cancelled.status == 0
    assert (await muster("session", "stop", session)).status == 0
    assert (await muster("session", "wait", session, "--timeout", "30s")).status == 0
    assert "nothing runs" in (await muster("session", "stop", session)).out


async def test_a_turn_ahead_of_a_long_queue_is_seen_to_end(
    client: MusterClient, session: str
) -> None:
    first = await client.send(session, f"{UNASKED}sleep 2; echo first")
    for number in range(24):
        await client.send(session, f"{UNASKED}echo {number}; sleep 60", operation="turn.follow_up")
    turn = await client.wait_turn(session, first.turn_id, within=30)
    assert turn.status == "completed"
    await client.stop(session)


async def test_a_turn_that_never_was_is_not_waited_for(client: MusterClient, session: str) -> None:
    with pytest.raises(ResourceGone):
        await client.wait_turn(session, "turn-nobody-knows", within=30)


async def test_an_abort_comes_next(muster: Command, session: str, folder: Path) -> None:
    await muster("session", "send", session, f"{UNASKED}sleep 60; touch never")
    said = await muster(
        "session", "send", session, f"{UNASKED}touch instead", "--abort", "--wait", "--json"
    )
    assert said.json["status"] == "completed"
    assert (folder / "instead").exists()
    assert not (folder / "never").exists()


async def test_a_wait_in_vain_times_out(muster: Command, session: str) -> None:
    said = await muster("session", "wait", session, "--for", "question", "--timeout", "300ms")
    assert said.status == 2
    said = await muster("session", "wait", session, "--for", "question", "--timeout", "0.3s")
    assert said.status == 3
    assert said.err.startswith("error[timed_out]: ")


async def test_an_unambiguous_beginning_names_a_session_and_an_ambiguous_one_lists_them(
    muster: Command, client: MusterClient, folder: Path
) -> None:
    stem = uuid.uuid4().hex[:8]
    for name in (f"{stem}-a", f"{stem}-b", f"{stem}"):
        await muster("session", "create", "--cwd", str(folder), "--session-id", name)
    assert await client.sessions.resolve(f"{stem}-a") == f"{stem}-a"
    exact = await muster("session", "show", stem, "-q")
    assert exact.out.strip() == stem
    said = await muster("session", "show", f"{stem}-", "--json")
    assert (said.status, said.json["error"]["code"]) == (2, "ambiguous_prefix")
    assert said.json["error"]["details"]["candidates"] == [f"{stem}-a", f"{stem}-b"]


async def test_a_list_has_pages_and_is_filtered_by_status(
    muster: Command, folder: Path, no_settings: pytest.MonkeyPatch
) -> None:
    no_settings.setenv("MUSTER_NAMESPACE", f"n-{uuid.uuid4().hex[:8]}")
    assert "no sessions" in (await muster("session", "ls")).out
    names = ["one", "three", "two"]
    for name in names:
        await muster("session", "create", "--cwd", str(folder), "--session-id", name)
    page = await muster("session", "ls", "-q", "--limit", "2")
    cursor = page.err.split("--after ")[1].strip()
    rest = await muster("session", "ls", "-q", "--limit", "2", "--after", cursor)
    assert sorted(page.out.split() + rest.out.split()) == names
    assert (await muster("session", "ls", "t", "-q")).out.split() == ["two", "three"]
    assert (await muster("session", "ls", "-q", "--status", "waiting")).out.split()
    assert (await muster("session", "ls", "-q", "--status", "failed")).out == ""


async def test_a_close_previews_refuses_while_a_turn_runs_and_forced_ends_it(
    muster: Command, session: str
) -> None:
    await muster("session", "send", session, f"{UNASKED}sleep 60")
    preview = (await muster("session", "close", session, "--dry-run", "--json")).json
    assert preview["refused_without_force"]
    refused = await muster("session", "close", session, "--json")
    assert (refused.status, refused.json["error"]["code"]) == (5, "active_turn_exists")
    closed = await muster("session", "close", session, "--force", "--json")
    assert closed.status == 0
    assert len(closed.json["settled_turn_ids"]) == 1


async def test_a_closed_session_is_gone_for_commands_and_its_close_is_repeatable(
    muster: Command, session: str
) -> None:
    first = await muster("session", "close", session, "--json")
    assert first.status == 0, first
    second = await muster("session", "close", session, "--json")
    assert second.json == first.json
    assert (await muster("session", "wait", session, "--for", "closed")).status == 0
    assert (await muster("session", "wait", session, "--for", "idle")).status in (0, 4)
    assert session not in (await muster("session", "ls", "-q")).out.split()
    assert session in (await muster("session", "ls", "-q", "--all")).out.split()
    sent = await muster("session", "send", session, "echo late", "--json")
    assert (sent.status, sent.json["error"]["code"]) == (4, "resource_gone")


async def test_a_session_that_was_active_lately_is_not_closed_for_being_idle(
    muster: Command, session: str
) -> None:
    said = await muster("session", "close", session, "--if-idle-for", "1h", "--json")
    assert (said.status, said.json["error"]["code"]) == (5, "session_not_idle")


async def test_watch_tells_each_change_until_the_session_is_closed(
    muster: Command, client: MusterClient, session: str
) -> None:
    watching = asyncio.create_task(muster("session", "watch", session))
    turn = await client.send(session, f"{UNASKED}echo seen")
    await client.wait_turn(session, turn.turn_id, within=30)
    await client.close(session)
    said = await watching
    assert said.status == 0
    assert "waiting" in said.out
    assert "done" in said.out.splitlines()[-1]


async def test_the_workflows_own_state_agrees_with_what_readers_see(
    client: MusterClient, session: str
) -> None:
    turn = await client.send(session, f"{UNASKED}echo seen")
    await client.wait_turn(session, turn.turn_id, within=30)

    async def agree() -> bool:
        control, summary = await client.control(session), await client.sessions.get(session)
        return (control.revision, control.status) == (summary.revision, summary.status)

    assert await eventually_async(agree)


async def test_doctor_finds_nothing_wrong_with_a_running_stack(muster: Command) -> None:
    said = await muster("doctor", "--json")
    assert [each["name"] for each in said.lines if each["ok"] is False] == []
    assert said.status == 0


async def test_doctor_names_what_is_wrong_and_what_to_do(
    muster: Command, no_settings: pytest.MonkeyPatch
) -> None:
    no_settings.setenv("MUSTER_ROOT", "deserted")
    no_settings.setenv("MUSTER_MONGO_DATABASE", "empty")
    no_settings.setenv("MUSTER_STATE_ROOT", "/nowhere/at/all")
    said = await muster("doctor", "--json")
    wrong = {each["name"]: each["todo"] for each in said.lines if each["ok"] is False}
    assert set(wrong) == {"worker", "mongo indexes", "state root"}
    assert all(wrong.values())
    assert said.status == 1


async def test_doctor_looks_at_mongodb_when_temporal_is_away(
    muster: Command, no_settings: pytest.MonkeyPatch
) -> None:
    no_settings.setenv("TEMPORAL_ADDRESS", "127.0.0.1:1")
    said = await muster("doctor", "-q")
    assert said.out.split() == ["temporal"]
    assert said.status == 1


async def test_setup_adds_what_is_missing_and_says_so(
    muster: Command, no_settings: pytest.MonkeyPatch
) -> None:
    no_settings.setenv("MUSTER_MONGO_DATABASE", f"db_{uuid.uuid4().hex[:8]}")
    said = await muster("setup", "--json")
    assert said.status == 0
    assert said.json["search_attributes_added"] == []
    assert "sessions.namespace_status" in said.json["indexes"]
