"""What isn't signed by the session's key is kept as evidence and changes nothing."""

from __future__ import annotations

import base64
import json
import signal
from pathlib import Path

import pytest

from muster.domain.canonical import sha256_hex
from muster.domain.gate_model import MalformedObservation
from muster.domain.session_document import SessionDocument
from muster.domain.session_rules import decode_document
from muster.domain.turn_model import TERMINAL_TURN
from muster.runtimes.acp import layout
from muster.stores.files import paths
from tests.faults.harness import PATIENCE_SECONDS, System
from tests.waiting import eventually

pytestmark = pytest.mark.faults


async def test_an_event_that_somebody_changed_in_a_living_session_s_log_is_never_applied(
    system: System,
) -> None:
    worker = await system.start_worker()
    session = (await system.create()).session_id
    # Frozen before it asks for events: a waiting question would be answered before the change.
    await worker.arm("deliver.sent=stop")
    accepted = await system.prompt(session, "k", system.script("k"))
    await worker.stopped()
    log = _log(system, session)
    await eventually(lambda: _type_of(log.read_bytes().splitlines()[-1]) == "turn.ended")
    changed = _change_last_line(log)
    worker.signal(signal.SIGCONT)
    digest = sha256_hex(changed)
    await eventually(lambda: digest in _evidence(system, session), within=PATIENCE_SECONDS)
    turn = _document(system, session).canonical.turns[accepted.turn_id]
    assert turn.status not in TERMINAL_TURN
    assert turn.stop_reason is None
    await system.close(session)
    assert system.living_agents() == 0


def _change_last_line(log: Path) -> bytes:
    """Make the turn's end a failure, at the same length; returns the line as it is now."""
    content = log.read_bytes()
    lines = content.splitlines()
    envelope = json.loads(lines[-1])
    body = base64.b64decode(envelope["payload"])
    forged = body.replace(b'"end_turn"', b'"refused!"')
    assert forged != body
    assert len(forged) == len(body)
    envelope["payload"] = base64.b64encode(forged).decode()
    line = json.dumps(envelope, separators=(",", ":")).encode()
    assert len(line) == len(lines[-1])
    with log.open("r+b") as file:
        file.seek(len(content) - len(line) - 1)
        file.write(line)
    return line


def _type_of(line: bytes) -> str:
    body = json.loads(base64.b64decode(json.loads(line)["payload"]))
    return str(body["event"]["type"])


def _log(system: System, session: str) -> Path:
    folder = system.state_root / paths.session_folder(system.name, session)
    (found,) = folder.glob(f"runtime/*/{layout.EVENTS}")
    return found


def _document(system: System, session: str) -> SessionDocument:
    path = system.state_root / paths.session_document(system.name, session)
    return decode_document(path.read_bytes(), system.name, session)


def _evidence(system: System, session: str) -> list[str]:
    """The digests of what was received and not believed."""
    return [
        each.observation.immutable_observation_digest
        for each in _document(system, session).canonical.gate_authorities.values()
        if isinstance(each.observation, MalformedObservation)
    ]
