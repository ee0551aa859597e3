"""A runtime that breaks its contract can waste a session, but never its document.

Whatever its log claims (unknown and queued turns, gates twice, another's ids, words that are no
ids), the commit goes through, the document keeps every rule, and a repeat changes nothing.
"""

from __future__ import annotations

import random
from typing import Any

import pytest

from muster.domain.canonical import sha256_hex
from muster.domain.changes import RecordEvents
from muster.domain.runtime import AgentExited, RejectedEvent, RuntimeEvent
from muster.domain.session_document import encode
from muster.domain.session_rules import decode_document
from muster.domain.transitions import apply
from tests.domain import builders as b

NAMES = ["p1", "f1", "f2", "a1", "ghost"]
GATES = ["g1", "g2", "", "no id", "../g"]
WORDS = ["rt-p1", "rt-f1", "rt-ghost", "", "two words"]


def _event(rng: random.Random, seq: int) -> RuntimeEvent:
    name, other = rng.choice(NAMES), rng.choice(NAMES)
    match rng.randrange(6):
        case 0:
            return b.started(seq, name).model_copy(update={"runtime_turn_id": f"rt-{other}"})
        case 1:
            fields: dict[str, Any] = {
                "gate_id": rng.choice(GATES),
                "runtime_turn_id": rng.choice(WORDS),
                "at": rng.choice([b.moment(seq), "later"]),
                "kind": rng.choice(["permission", ""]),
            }
            return b.gate(seq, "g1", name, **rng.choice([fields, {}]))
        case 2:
            return b.gate_closed(seq, rng.choice(GATES), name, rng.choice(["allow", "x", None]))
        case 3:
            reason: b.StopReason = rng.choice(["end_turn", "cancelled", "error"])
            return b.ended(seq, name, reason, usage=rng.choice([None, {"a": [1, None]}]))
        case 4:
            return b.started(seq, name)
        case _:
            if rng.random() < 0.2:
                return AgentExited(seq=seq, at=b.moment(seq))
            return b.gate(seq, rng.choice(["g1", "g2", "g3"]), name)


def _batch(rng: random.Random, cursor: int) -> RecordEvents:
    first = max(1, cursor - 1 + rng.randrange(3))
    found = tuple(_event(rng, seq) for seq in range(first, first + rng.randrange(1, 5)))
    rejected = RejectedEvent(
        seq=None,
        digest=sha256_hex(str(rng.randrange(4))),
        malformed=rng.choice(["missing_runtime_turn", "wrong_session"]),
        reason="unreadable",
    )
    return RecordEvents(
        events=found,
        rejected=(rejected,) if rng.random() < 0.3 else (),
        cursor=found[-1].seq,
        gone=rng.random() < 0.05,
    )


@pytest.mark.parametrize("name", sorted(b.VALID))
def test_no_log_can_break_a_document_or_stop_its_commits(name: str) -> None:
    for seed in range(40):
        rng = random.Random(f"{name}{seed}")
        document = b.VALID[name]()
        for step in range(6):
            change = _batch(rng, document.recovery.runtime_cursor)
            document, _ = apply(document, change, b.moment(step))
            assert decode_document(encode(document), b.NAMESPACE, b.SESSION) == document, seed
            again, _ = apply(document, change, b.moment(step + 0.5))
            assert again is document, seed
