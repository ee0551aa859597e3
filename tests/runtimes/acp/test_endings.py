"""How launches end: by close, by their agent, by a killed sidecar; and what is left then."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from pathlib import Path

import pytest

from muster.domain.canonical import sha256_hex
from muster.domain.errors import InvalidInput, RuntimeGone
from muster.domain.runtime import (
    AgentExited,
    Endpoint,
    EndpointClosed,
    FollowRequest,
    GateOpened,
    LaunchState,
    RuntimeKind,
    TurnEnded,
)
from muster.runtimes.acp import layout
from muster.runtimes.acp.adapter import AcpRuntime
from tests.runtimes.acp.support import FREELY, Home, Session, content_of, eventually, lives

_ROOT = str(Path(__file__).resolve().parents[3])
_DAEMON = "setsid sh -c 'echo $$ > daemon; exec sleep 600' > /dev/null 2>&1 &"


def _pids(session: Session) -> list[int]:
    record = session.record()
    return [record["sidecar"]["pid"], record["guard"]["pid"], record["agent_pid"]]


async def _events(session: Session) -> list[str]:
    result = await session.runtime.follow(FollowRequest(endpoint=session.endpoint, after=0))
    return [event.type for event in result.events]


async def test_close_leaves_no_process_not_even_one_that_left_its_session(home: Home) -> None:
    session = await home.launch()
    await session.run(_DAEMON)
    daemon = int(await content_of(home.cwd / "daemon"))
    assert lives(daemon)

    closed = await session.close()

    assert closed.already_gone is False
    assert [pid for pid in [*_pids(session), daemon] if lives(pid)] == []
    assert not (session.folder / layout.SOCKET).exists()


async def test_closing_again_is_a_success_that_says_so(home: Home) -> None:
    session = await home.launch()
    await session.close("first")

    assert (await session.close("first")).already_gone
    assert (await session.close("second")).already_gone


async def test_two_closes_at_once_both_succeed(home: Home) -> None:
    session = await home.launch()

    await asyncio.gather(session.close("one"), session.close("two"))

    assert [pid for pid in _pids(session) if lives(pid)] == []


async def test_close_ends_the_turn_and_its_question_before_the_endpoint(home: Home) -> None:
    session = await home.launch()
    await session.deliver("touch asked")
    await session.until(GateOpened)

    await session.close()

    result = await session.runtime.follow(
        FollowRequest(endpoint=session.endpoint, after=session.cursor)
    )
    assert [event.type for event in result.events] == [
        "gate.closed",
        "turn.ended",
        "endpoint.closed",
    ]
    ended = result.events[1]
    assert isinstance(ended, TurnEnded)
    assert ended.stop_reason == "cancelled"
    assert result.gone
    assert not (home.cwd / "asked").exists()


async def test_a_follower_that_waits_hears_the_close(home: Home) -> None:
    session = await home.launch()
    waiting = asyncio.create_task(
        session.runtime.follow(FollowRequest(endpoint=session.endpoint, after=0, wait_seconds=60))
    )
    await asyncio.sleep(0.05)

    await session.close()
    result = await waiting

    assert isinstance(result.events[-1], EndpointClosed)
    assert result.gone


async def test_an_agent_that_dies_ends_its_turn_and_is_reported(home: Home) -> None:
    session = await home.launch()
    await session.deliver(FREELY + "sleep 600 & echo $! > child; kill -9 $PPID; wait")

    events = await session.events_until(AgentExited)

    ended, exited = events[-2:]
    assert isinstance(ended, TurnEnded)
    assert isinstance(exited, AgentExited)
    assert ended.stop_reason == "error"
    assert "-9" in (ended.error or "")
    assert exited.exit_code == -signal.SIGKILL
    assert not lives(int(await content_of(home.cwd / "child")))
    with pytest.raises(RuntimeGone, match="has ended"):
        await session.deliver("echo later")
    assert (await session.close()).already_gone is False


async def test_an_agent_that_ignores_a_cancel_is_ended_after_its_grace(home: Home) -> None:
    start = f"import sys; sys.path.insert(0, {_ROOT!r}); import tests.runtimes.acp.stubborn_agent"
    request = home.request(command=(sys.executable, "-P", "-c", start))
    session = await home.launch(request, AcpRuntime(home.root, cancel_grace_seconds=0.2))
    await session.deliver(FREELY + "echo $$ > script; sleep 600")
    script = int(await content_of(home.cwd / "script"))

    await session.interrupt()
    events = await session.events_until(AgentExited)

    ended = events[-2]
    assert isinstance(ended, TurnEnded)
    assert ended.stop_reason == "cancelled"
    assert "didn't end the turn" in (ended.error or "")
    assert not lives(script)


async def test_a_killed_sidecar_takes_everything_with_it_and_its_logs_still_answer(
    home: Home,
) -> None:
    session = await home.launch()
    await session.run(_DAEMON)
    first = await session.deliver(FREELY + "echo $$ > script; sleep 600", key="running")
    pids = [int(await content_of(home.cwd / name)) for name in ("daemon", "script")]

    os.kill(session.record()["sidecar"]["pid"], signal.SIGKILL)

    await eventually(lambda: not layout.is_alive(session.folder))
    assert [pid for pid in [*_pids(session), *pids] if lives(pid)] == []
    found = await session.runtime.find_launch(home.request())
    assert found.state is LaunchState.ENDED
    assert await session.deliver(FREELY + "echo $$ > script; sleep 600", key="running") == first
    with pytest.raises(RuntimeGone):
        await session.deliver("echo another", key="another")
    assert await _events(session) == ["turn.started", "turn.ended", "turn.started"]
    last = await session.runtime.follow(FollowRequest(endpoint=session.endpoint, after=10_000))
    assert last.gone
    assert (await session.close()).already_gone


async def test_a_killed_guard_takes_the_sidecar_and_its_agent_with_it(home: Home) -> None:
    session = await home.launch()

    os.kill(session.record()["guard"]["pid"], signal.SIGKILL)

    await eventually(lambda: not any(map(lives, _pids(session))))
    with pytest.raises(RuntimeGone):
        await session.deliver("echo later")


async def test_a_sidecar_that_is_told_to_stop_reports_it_and_ends(home: Home) -> None:
    session = await home.launch()
    await session.deliver(FREELY + "sleep 600")

    os.kill(session.record()["guard"]["pid"], signal.SIGTERM)

    await eventually(lambda: not layout.is_alive(session.folder))
    assert await _events(session) == ["turn.started", "turn.ended", "agent.exited"]


async def test_a_sidecar_that_hangs_is_closed_by_force(home: Home) -> None:
    session = await home.launch(runtime=AcpRuntime(home.root, command_seconds=0.2))
    await session.run(_DAEMON)
    daemon = int(await content_of(home.cwd / "daemon"))
    os.kill(session.record()["sidecar"]["pid"], signal.SIGSTOP)

    closed = await session.close()

    assert closed.already_gone is False
    assert [pid for pid in [*_pids(session), daemon] if lives(pid)] == []


async def test_an_event_changed_on_the_disk_is_evidence_and_the_others_are_applied(
    home: Home,
) -> None:
    session = await home.launch()
    await session.run("true")
    path = session.folder / layout.EVENTS
    lines = path.read_bytes().splitlines(keepends=True)
    envelope = json.loads(lines[0])
    swapped = "B" if envelope["payload"][40] != "B" else "C"
    envelope["payload"] = envelope["payload"][:40] + swapped + envelope["payload"][41:]
    forged = json.dumps(envelope, separators=(",", ":")).encode()
    path.write_bytes(forged + b"\n" + b"".join(lines[1:]))

    result = await session.runtime.follow(FollowRequest(endpoint=session.endpoint, after=0))

    assert [event.type for event in result.events] == ["turn.ended"]
    assert [each.digest for each in result.rejected] == [sha256_hex(forged)]
    assert result.cursor == 2


async def test_an_event_shown_twice_is_applied_once(home: Home) -> None:
    session = await home.launch()
    await session.run("true")
    await session.close()
    path = session.folder / layout.EVENTS
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([lines[0], lines[0], *lines[1:]]))

    result = await session.runtime.follow(FollowRequest(endpoint=session.endpoint, after=0))

    assert [event.type for event in result.events] == [
        "turn.started",
        "turn.ended",
        "endpoint.closed",
    ]
    assert ["out of order" in each.reason for each in result.rejected] == [True]


async def test_an_unfinished_last_line_is_passed_over(home: Home) -> None:
    session = await home.launch()
    await session.run("true")
    await session.close()
    path = session.folder / layout.EVENTS
    path.write_bytes(path.read_bytes() + b'{"payloadType":"application/vnd')

    assert await _events(session) == ["turn.started", "turn.ended", "endpoint.closed"]


async def test_events_of_another_incarnation_are_never_applied(home: Home) -> None:
    session = await home.launch()
    await session.run("true")
    other = session.endpoint.model_copy(update={"incarnation": "another"})

    result = await session.runtime.follow(FollowRequest(endpoint=other, after=0))

    assert result.events == ()
    assert [each.malformed for each in result.rejected] == ["wrong_session", "wrong_session"]


@pytest.mark.parametrize(
    "url",
    [
        "acp:../../etc",
        "acp:/etc/passwd",
        "acp:v2/tests/sessions/other/runtime/0123456789abcdef01234567",
        "acp:v2/tests/sessions/s-1/runtime/../../../0123456789abcdef01234567",
    ],
)
async def test_an_endpoint_that_is_not_the_sessions_own_launch_is_refused(
    home: Home, url: str
) -> None:
    endpoint = Endpoint(
        runtime=RuntimeKind.ACP,
        namespace_id="tests",
        session_id="s-1",
        incarnation="i-1",
        endpoint_url=url,
        verifier=home.verifier,
    )

    with pytest.raises(InvalidInput, match="isn't a launch"):
        await AcpRuntime(home.root).follow(FollowRequest(endpoint=endpoint, after=0))
