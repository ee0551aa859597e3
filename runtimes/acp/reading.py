"""From received bytes to an event that may be applied, or to evidence that may not."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable
from typing import Any, Literal

from pydantic import TypeAdapter, ValidationError

from muster.domain.canonical import sha256_hex
from muster.domain.errors import SignatureInvalid
from muster.domain.runtime import Endpoint, RejectedEvent, RuntimeEvent, Verifier
from muster.runtimes.signing import EVENT_TYPE, STATUS_TYPE, key_id_of, verify

Malformed = Literal[
    "missing_runtime_turn", "invalid_runtime_turn", "invalid_gate_row", "wrong_session"
]
_EVENT: TypeAdapter[RuntimeEvent] = TypeAdapter(RuntimeEvent)


def read_events(
    lines: Iterable[str], endpoint: Endpoint, after: int
) -> tuple[list[RuntimeEvent], list[RejectedEvent]]:
    """The events that the endpoint's key signed for it, in rising order, and all others."""
    events: list[RuntimeEvent] = []
    rejected: list[RejectedEvent] = []
    for line in lines:
        read = _read_event(line.encode(), endpoint, after)
        if isinstance(read, RejectedEvent):
            rejected.append(read)
        else:
            events.append(read)
            after = read.seq
    return events, rejected


def read_status(line: str, nonce: str) -> tuple[dict[str, Any], Verifier]:
    """What a sidecar states of itself, and the key that this very statement proves it holds.

    The key vouches for itself: its id is the digest of the public half that verifies the
    statement, and the nonce makes the statement fresh. Whether it is the right key is for the
    caller to decide. Raises SignatureInvalid.
    """
    try:
        presented = json.loads(base64.b64decode(json.loads(line)["payload"]))["public_key"]
        key_id = key_id_of(base64.b64decode(presented))
        verifier = Verifier(key_id=key_id, public_key=presented)
    except (ValueError, KeyError, TypeError) as error:
        raise SignatureInvalid(f"the sidecar's status can't be read: {error!r}") from error
    status: dict[str, Any] = json.loads(verify(line.encode(), verifier, STATUS_TYPE))
    if status.get("nonce") != nonce:
        raise SignatureInvalid("the sidecar's status answers another question: it isn't fresh")
    return status, verifier


def _read_event(line: bytes, endpoint: Endpoint, after: int) -> RuntimeEvent | RejectedEvent:
    try:
        body = json.loads(verify(line, endpoint.verifier, EVENT_TYPE))
    except SignatureInvalid as error:
        return _rejected(line, None, "wrong_session", error.message)
    except ValueError as error:
        return _rejected(line, None, "wrong_session", f"the signed body isn't JSON: {error}")
    fields = body.get("event", {})
    seq = body.get("seq")
    bound = tuple(body.get(name) for name in ("namespace_id", "session_id", "incarnation"))
    if bound != (endpoint.namespace_id, endpoint.session_id, endpoint.incarnation):
        return _rejected(line, seq, "wrong_session", f"it is bound to {'/'.join(map(str, bound))}")
    if seq != fields.get("seq") or not isinstance(seq, int) or seq <= after:
        return _rejected(line, None, "wrong_session", f"sequence {seq} is out of order")
    try:
        return _EVENT.validate_python(fields)
    except ValidationError as error:
        return _rejected(line, seq, _malformed(fields), str(error)[:500])


def _malformed(fields: dict[str, Any]) -> Malformed:
    if str(fields.get("type", "")).startswith("gate."):
        return "invalid_gate_row"
    return "invalid_runtime_turn" if "runtime_turn_id" in fields else "missing_runtime_turn"


def _rejected(line: bytes, seq: int | None, malformed: Malformed, reason: str) -> RejectedEvent:
    return RejectedEvent(seq=seq, digest=sha256_hex(line), malformed=malformed, reason=reason)
