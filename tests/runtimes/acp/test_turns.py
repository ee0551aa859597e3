"""Prompts, permission and answers against the scripted agent, in one session for all tests."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from muster.domain.errors import ActiveTurnExists, IdempotencyConflict, InvalidInput
from muster.domain.runtime import (
    RESPONSE_EXCERPT_BYTES,
    FollowRequest,
    GateClosed,
    GateOpened,
    MessageChunk,
    TurnEnded,
    TurnStarted,
)
from tests.runtimes.acp.support import (
    FREELY,
    NAMESPACE,
    Home,
    Session,
    content_of,
    eventually,
    git,
    lives,
    make_repository,
)


@pytest.fixture(scope="module")
async def session(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Session]:
    home = Home.make(tmp_path_factory.mktemp("turns"))
    make_repository(home.cwd)
    try:
        yield await home.launch()
    finally:
        home.end_everything()


async def test_a_prompt_changes_the_repository_and_says_from_where_to_where(
    session: Session,
) -> None:
    before = git(session.cwd, "rev-parse", "HEAD")

    ended = await session.run(
        "echo made > file && git add file && git commit -qm work && echo done"
    )

    assert (session.cwd / "file").read_text() == "made\n"
    assert (ended.stop_reason, ended.response.text, ended.error) == ("end_turn", "done\n", None)
    assert (ended.head_before, ended.head_after) == (before, git(session.cwd, "rev-parse", "HEAD"))
    assert ended.head_before != ended.head_after


async def test_a_failing_script_still_ends_its_turn_and_names_its_exit_status(
    session: Session,
) -> None:
    ended = await session.run("echo trouble >&2; exit 7")

    assert ended.stop_reason == "end_turn"
    assert ended.response.text == "trouble\nexit status 7\n"


async def test_nothing_runs_before_permission_is_given(session: Session) -> None:
    receipt = await session.deliver("touch permitted")

    gate = await session.until(GateOpened)
    assert not (session.cwd / "permitted").exists()
    assert "touch permitted" in gate.prompt
    assert gate.runtime_turn_id == receipt.runtime_turn_id
    assert [option.kind for option in gate.options] == [
        "allow_once",
        "allow_always",
        "reject_once",
        "reject_always",
    ]
    answered = await session.answer(gate, "allow_once", "permit-1")
    events = await session.events_until(TurnEnded)

    assert answered.status == "accepted"
    assert (session.cwd / "permitted").exists()
    closed = next(event for event in events if isinstance(event, GateClosed))
    assert (closed.outcome, closed.option_id) == ("answered", "allow_once")


async def test_a_second_answer_hears_what_won_and_a_repeated_one_its_own_receipt(
    session: Session,
) -> None:
    await session.deliver("echo once")
    gate = await session.until(GateOpened)
    first = await session.answer(gate, "allow_once", "first")

    second = await session.answer(gate, "reject_once", "second")
    await session.until(TurnEnded)

    assert second.status == "rejected"
    assert "allow_once" in (second.reason or "")
    assert await session.answer(gate, "allow_once", "first") == first
    assert await session.answer(gate, "reject_once", "second") == second
    with pytest.raises(IdempotencyConflict):
        await session.answer(gate, "reject_once", "first")


async def test_a_rejected_permission_ends_the_turn_without_running_it(session: Session) -> None:
    await session.deliver("touch rejected")
    gate = await session.until(GateOpened)

    await session.answer(gate, "reject_once", "reject-1")
    ended = await session.until(TurnEnded)

    assert ended.stop_reason == "refusal"
    assert not (session.cwd / "rejected").exists()


async def test_an_answer_that_the_gate_does_not_offer_is_refused_and_leaves_it_open(
    session: Session,
) -> None:
    await session.deliver("true")
    gate = await session.until(GateOpened)

    with pytest.raises(InvalidInput, match="allow_once"):
        await session.answer(gate, "maybe", "odd")

    assert (await session.answer(gate, None, "cancel-gate")).status == "accepted"
    assert (await session.until(TurnEnded)).stop_reason == "cancelled"


async def test_a_repeated_prompt_runs_once_and_hears_its_first_receipt(session: Session) -> None:
    script = FREELY + "echo line >> count"
    first = await session.deliver(script, key="repeated")
    during = await session.deliver(script, key="repeated")
    await session.until(TurnEnded)

    after = await session.deliver(script, key="repeated")
    await session.run("true")

    assert first == during == after
    assert (session.cwd / "count").read_text() == "line\n"


async def test_the_same_key_for_another_prompt_is_a_conflict(session: Session) -> None:
    await session.deliver(FREELY + "true", key="taken")
    await session.until(TurnEnded)

    with pytest.raises(IdempotencyConflict, match="taken"):
        await session.deliver(FREELY + "touch conflicting", key="taken")

    assert not (session.cwd / "conflicting").exists()


async def test_a_prompt_during_a_turn_is_refused_and_its_key_stays_free(session: Session) -> None:
    await session.deliver("true", key="running")
    gate = await session.until(GateOpened)

    with pytest.raises(ActiveTurnExists, match="turn-running"):
        await session.deliver(FREELY + "touch refused-first", key="patient")
    await session.answer(gate, "allow_once", "go-on")
    await session.until(TurnEnded)
    await session.deliver(FREELY + "touch refused-first", key="patient")
    await session.until(TurnEnded)

    assert (session.cwd / "refused-first").exists()


async def test_an_interrupt_ends_the_script_and_everything_in_its_group(session: Session) -> None:
    await session.deliver(FREELY + "sleep 600 & echo $! > child; wait")
    child = int(await content_of(session.cwd / "child"))

    await session.interrupt("stop-script")
    ended = await session.until(TurnEnded)

    assert ended.stop_reason == "cancelled"
    await eventually(lambda: not lives(child))


async def test_an_interrupt_cancels_the_open_question(session: Session) -> None:
    await session.deliver("touch never-run")
    gate = await session.until(GateOpened)

    await session.interrupt("stop-question")
    events = await session.events_until(TurnEnded)

    closed = next(event for event in events if isinstance(event, GateClosed))
    assert (closed.gate_id, closed.outcome) == (gate.gate_id, "cancelled")
    assert events[-1].stop_reason == "cancelled"  # type: ignore[union-attr]
    late = await session.answer(gate, "allow_once", "too-late")
    assert (late.status, late.reason) == ("rejected", "it was cancelled")
    assert not (session.cwd / "never-run").exists()


async def test_an_interrupt_right_after_the_prompt_cancels_it(session: Session) -> None:
    await session.deliver(FREELY + "sleep 600")

    await session.interrupt("at-once")

    assert (await session.until(TurnEnded)).stop_reason == "cancelled"


async def test_an_interrupt_without_a_turn_is_a_success(session: Session) -> None:
    await session.interrupt("nothing-to-stop")

    assert (await session.run("echo still here")).response.text == "still here\n"


async def test_a_large_response_is_an_excerpt_and_a_file(session: Session) -> None:
    ended = await session.run("head -c 300000 /dev/zero | tr '\\0' 'x'")

    response = ended.response
    assert response.truncated
    assert len(response.text) == RESPONSE_EXCERPT_BYTES
    assert response.artifact_path is not None
    whole = (session.root / "v2" / NAMESPACE / response.artifact_path).read_bytes()
    assert len(whole) == response.length == 300_000
    assert hashlib.sha256(whole).hexdigest() == response.sha256


async def test_output_is_streamed_in_few_events_that_add_up(session: Session) -> None:
    await session.deliver(FREELY + "for i in $(seq 3000); do echo line $i; done")

    events = await session.events_until(TurnEnded, chunks=True)

    chunks = [event.text for event in events if isinstance(event, MessageChunk)]
    said = "".join(f"line {number}\n" for number in range(1, 3001))
    assert "".join(chunks) == said
    assert 1 < len(chunks) < 100
    assert [event.seq for event in events] == list(
        range(events[0].seq, events[0].seq + len(events))
    )


async def test_a_follower_without_chunks_still_moves_past_them(session: Session) -> None:
    start = session.cursor
    await session.run("for i in 1 2 3; do echo $i; sleep 0.06; done")

    result = await session.runtime.follow(FollowRequest(endpoint=session.endpoint, after=start))

    assert [event.type for event in result.events] == ["turn.started", "turn.ended"]
    assert result.cursor == session.cursor > start + 2


async def test_a_follower_waits_for_the_next_event_and_can_be_cancelled(session: Session) -> None:
    request = FollowRequest(endpoint=session.endpoint, after=session.cursor, wait_seconds=60)
    cancelled = asyncio.create_task(session.runtime.follow(request))
    waiting = asyncio.create_task(session.runtime.follow(request))
    await asyncio.sleep(0.05)
    cancelled.cancel()
    assert not waiting.done()

    await session.run("true")
    result = await waiting

    assert isinstance(result.events[0], TurnStarted)
    with pytest.raises(asyncio.CancelledError):
        await cancelled


async def test_a_follower_hears_within_its_wait_that_nothing_came(session: Session) -> None:
    request = FollowRequest(endpoint=session.endpoint, after=session.cursor, wait_seconds=0.1)

    result = await session.runtime.follow(request)

    assert (result.events, result.cursor, result.gone) == ((), session.cursor, False)


async def test_a_prompt_of_two_megabytes_arrives_whole(session: Session) -> None:
    ended = await session.run(f"cat > big <<'END'\n{'y' * 2_000_000}\nEND\nwc -c < big")

    assert ended.response.text.strip() == "2000001"


async def test_what_a_script_leaves_in_the_background_does_not_hold_its_turn(
    session: Session,
) -> None:
    ended = await session.run("sleep 600 & echo started")

    assert ended.response.text == "started\n"


async def test_permission_given_for_always_is_not_asked_again(session: Session) -> None:
    await session.deliver("echo one")
    await session.answer(await session.until(GateOpened), "allow_always", "always")
    await session.until(TurnEnded)

    await session.deliver("echo two")
    events = await session.events_until(TurnEnded)

    assert not any(isinstance(event, GateOpened) for event in events)
    assert events[-1].response.text == "two\n"  # type: ignore[union-attr]


def test_the_socket_and_every_file_are_private(session: Session) -> None:
    def others_may(path: Path) -> bool:
        return bool(path.stat().st_mode & 0o077)

    assert [path for path in (session.folder, *session.folder.rglob("*")) if others_may(path)] == []
    assert (session.folder / "sidecar.sock").stat().st_mode & 0o777 == 0o600
