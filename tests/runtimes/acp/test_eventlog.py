"""The event log by itself: order, pages, and a disk that refuses."""

from __future__ import annotations

import asyncio
import errno
import json
import os
from pathlib import Path

import pytest

from muster.domain.errors import IdempotencyConflict, StorageUnavailable
from muster.domain.runtime import Endpoint, RuntimeKind
from muster.runtimes.acp import layout
from muster.runtimes.acp.commandlog import CommandLog, recorded_receipt
from muster.runtimes.acp.eventlog import Binding, EventLog, read_ended
from muster.runtimes.acp.reading import read_events, read_status
from muster.runtimes.signing import EVENT_TYPE, STATUS_TYPE, Signer, generate_key

_PAIR = generate_key()
_SIGNER = Signer.from_pem(_PAIR.private_pem)
_BINDING = Binding("tests", "s-1", "i-1")
_ENDPOINT = Endpoint(
    runtime=RuntimeKind.ACP,
    namespace_id="tests",
    session_id="s-1",
    incarnation="i-1",
    endpoint_url="acp:nowhere",
    verifier=_PAIR.verifier,
)


@pytest.fixture
async def log(tmp_path: Path) -> EventLog:
    return EventLog(tmp_path, _SIGNER, _BINDING)


def _sequences(lines: list[str]) -> list[int]:
    events, rejected = read_events(lines, _ENDPOINT, 0)
    assert not rejected
    return [event.seq for event in events]


def _signed(event: dict[str, object], seq: int = 1, binding: Binding = _BINDING) -> str:
    fields = {"seq": seq, "at": "2026-01-01T00:00:00+00:00", **event}
    body = {**binding._asdict(), "seq": seq, "event": fields}
    return _SIGNER.sign(EVENT_TYPE, json.dumps(body).encode()).decode()


async def test_a_page_goes_on_where_the_last_one_ended(log: EventLog) -> None:
    for _ in range(5):
        log.append("endpoint.closed")

    first = log.read(0, limit=2, include_chunks=False)
    second = log.read(first.cursor, limit=9, include_chunks=False)

    assert _sequences(first.lines) == [1, 2]
    assert _sequences(second.lines) == [3, 4, 5]
    assert second.cursor == 5


async def test_a_page_without_chunks_ends_behind_them(log: EventLog) -> None:
    log.append("message.chunk", turn_id="t", text="a")
    log.append("endpoint.closed")
    log.append("message.chunk", turn_id="t", text="b")

    assert _sequences(log.read(0, limit=1, include_chunks=False).lines) == [2]
    assert log.read(2, limit=1, include_chunks=False) == ([], 3)
    assert _sequences(log.read(0, limit=9, include_chunks=True).lines) == [1, 2, 3]


async def test_a_page_stays_small_enough_for_one_message(log: EventLog) -> None:
    for _ in range(40):
        log.append("message.chunk", turn_id="t", text="x" * 60_000)

    page = log.read(0, limit=1000, include_chunks=True)

    assert sum(map(len, page.lines)) < 1_300_000
    assert page.cursor == len(page.lines) < 40


async def test_a_log_reads_the_same_after_its_sidecar_is_gone(
    log: EventLog, tmp_path: Path
) -> None:
    for _ in range(3):
        log.append("message.chunk", turn_id="t", text="a")
        log.append("endpoint.closed")

    for after in range(7):
        for chunks in (True, False):
            living = log.read(after, limit=2, include_chunks=chunks)
            ended = read_ended(tmp_path, after, limit=2, include_chunks=chunks)
            assert ended.lines == living.lines


async def test_an_event_that_the_disk_refused_is_written_later_and_in_order(
    log: EventLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    log.append("endpoint.closed")
    full = OSError(errno.ENOSPC, "No space left on device")

    def refuse(*_: object) -> None:
        raise full

    with monkeypatch.context() as disk:
        disk.setattr(os, "fdatasync", refuse)
        log.append("endpoint.closed")
        log.append("endpoint.closed")
        assert log.last == 1

    await asyncio.wait_for(log.written(), timeout=5)

    assert _sequences(log.read(0, limit=9, include_chunks=True).lines) == [1, 2, 3]


async def test_a_command_that_the_disk_refused_is_not_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commands = CommandLog(tmp_path)

    def refuse(*_: object) -> None:
        raise OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as disk:
        disk.setattr(os, "fdatasync", refuse)
        with pytest.raises(StorageUnavailable, match="again"):
            commands.record("key", "deliver", "digest", {"first": True})

    assert commands.find("key", "digest") is None
    commands.record("key", "deliver", "digest", {"second": True})
    assert recorded_receipt(tmp_path, "key", "digest") == {"second": True}


async def test_receipts_outlive_the_log_and_an_unfinished_line_is_none(tmp_path: Path) -> None:
    CommandLog(tmp_path).record("key", "deliver", "digest", {"n": 1})
    path = tmp_path / layout.COMMANDS
    path.write_bytes(path.read_bytes() + b'{"key":"torn"')

    assert recorded_receipt(tmp_path, "key", "digest") == {"n": 1}
    assert recorded_receipt(tmp_path, "torn", "digest") is None
    with pytest.raises(IdempotencyConflict):
        recorded_receipt(tmp_path, "key", "another")


@pytest.mark.parametrize(
    ("event", "malformed"),
    [
        ({"type": "gate.opened", "gate_id": "g"}, "invalid_gate_row"),
        ({"type": "gate.closed", "gate_id": "g", "turn_id": "t"}, "invalid_gate_row"),
        ({"type": "turn.ended", "turn_id": "t"}, "missing_runtime_turn"),
        ({"type": "turn.started", "turn_id": "t", "runtime_turn_id": "/"}, "invalid_runtime_turn"),
    ],
)
def test_a_signed_event_of_the_wrong_form_is_evidence_of_its_kind(
    event: dict[str, object], malformed: str
) -> None:
    events, rejected = read_events([_signed(event, seq=7)], _ENDPOINT, 0)

    assert events == []
    assert [(each.seq, each.malformed) for each in rejected] == [(7, malformed)]


@pytest.mark.parametrize("part", Binding._fields)
def test_a_signed_event_of_another_place_is_evidence(part: str) -> None:
    elsewhere = _BINDING._replace(**{part: "elsewhere"})

    events, rejected = read_events(
        [_signed({"type": "endpoint.closed"}, binding=elsewhere)], _ENDPOINT, 0
    )

    assert events == []
    assert rejected[0].malformed == "wrong_session"
    assert "elsewhere" in rejected[0].reason


def test_a_status_for_another_nonce_proves_nothing() -> None:
    body = {"nonce": "old", "public_key": _PAIR.verifier.public_key}
    line = _SIGNER.sign(STATUS_TYPE, json.dumps(body).encode()).decode()

    assert read_status(line, "old")[1] == _PAIR.verifier
    with pytest.raises(Exception, match="fresh"):
        read_status(line, "new")
