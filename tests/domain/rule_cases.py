"""Documents that break one rule each; `test_rules.py` shows what is said of them."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from muster.domain.session_document import SessionDocument, encode
from tests.domain import builders as b

Json = dict[str, Any]
Builder = Callable[[], SessionDocument]

P1, F1, F2 = b.turn_of("p1"), b.turn_of("f1"), b.turn_of("f2")
GATE, QUESTION = b.authority_of("g1"), b.question_of("g1")


@dataclass(frozen=True)
class Case:
    """A valid document, the change that breaks it, and the place the error must name."""

    base: Builder
    break_it: Callable[[Json], object]
    where: str


def set_to(*path: str, to: object) -> Callable[[Json], None]:
    def mutate(document: Json) -> None:
        place = document
        for part in path[:-1]:
            place = place[part]
        place[path[-1]] = to

    return mutate


def _refile(*path: str, under: str) -> Callable[[Json], None]:
    """File an entry under another key."""

    def mutate(document: Json) -> None:
        place = document
        for part in path[:-1]:
            place = place[part]
        place[under] = place.pop(path[-1])

    return mutate


def _twice(*path: str, **changes: object) -> Callable[[Json], None]:
    """File a copy of an entry, with changes, beside it under what `under` says."""
    under = str(changes.pop("under"))

    def mutate(document: Json) -> None:
        place = document
        for part in path[:-1]:
            place = place[part]
        place[under] = {**copy.deepcopy(place[path[-1]]), **changes}

    return mutate


def _both(*mutations: Callable[[Json], object]) -> Callable[[Json], None]:
    def mutate(document: Json) -> None:
        for each in mutations:
            each(document)

    return mutate


def _only_key(base: Builder, *path: str) -> str:
    document = json.loads(encode(base()))
    for part in path:
        document = document[part]
    return str(next(iter(document)))


TURNS = ("canonical", "turns")
GATES = ("canonical", "gate_authorities")
QUESTIONS = ("canonical", "questions")
REPORTS = ("canonical", "reports")
QUEUE = ("canonical", "queue")
PROMPTS, ANSWERS = ("requests", "prompts"), ("requests", "answers")
OPERATIONS = ("requests", "operations")
W1, W2 = b.key("w1"), b.key("w2")
REPORT = _only_key(b.done, *REPORTS)
EVENT = _only_key(b.idle, "outbox")
STOP = _only_key(b.stopping, *OPERATIONS)
OTHER_RECEIPT = {"accepted": True, "command_id": "cmd-other", "runtime_turn_id": "rt-p1"}
BINDING = "canonical.questions." + QUESTION + ".binding_sha256"

CASES: dict[str, Case] = {
    "session.identity": Case(
        b.idle, set_to("canonical", "session", "session_id", to="s-2"), "canonical.session"
    ),
    "turn.key": Case(
        b.delivering, set_to(*TURNS, P1, "turn_id", to="turn-x"), f"canonical.turns.{P1}"
    ),
    "turn.identity": Case(
        b.delivering, set_to(*TURNS, P1, "namespace_id", to="other"), f"canonical.turns.{P1}"
    ),
    "turn.provenance": Case(
        b.asking,
        set_to(*TURNS, P1, "runtime_provenance", "coordinator_turn_id", to="turn-x"),
        f"canonical.turns.{P1}.runtime_provenance",
    ),
    "turn.question_ids_unique": Case(
        b.asking,
        set_to(*TURNS, P1, "question_ids", to=[QUESTION, QUESTION]),
        f"canonical.turns.{P1}.question_ids",
    ),
    "turn.queued_untouched": Case(
        b.queued, set_to(*TURNS, F1, "started_at", to=b.moment()), f"canonical.turns.{F1}"
    ),
    "turn.terminal_fenced": Case(
        b.done, set_to(*TURNS, P1, "terminal_fence", "status", to="failed"), f"canonical.turns.{P1}"
    ),
    "turn.active_started": Case(
        b.active, set_to(*TURNS, P1, "started_at", to=None), f"canonical.turns.{P1}"
    ),
    "turn.acknowledged_delivery": Case(
        b.done,
        set_to(*TURNS, P1, "delivery", "runtime_command_id", to=None),
        f"canonical.turns.{P1}.delivery",
    ),
    "turn.receipt": Case(
        b.active,
        set_to(*PROMPTS, b.key("p1"), "runtime_receipt", to=OTHER_RECEIPT),
        f"canonical.turns.{P1}.delivery",
    ),
    "prompt.key": Case(
        b.delivering,
        _refile(*PROMPTS, b.key("p1"), under=b.key("other")),
        f"requests.prompts.{b.key('other')}",
    ),
    "prompt.turn": Case(
        b.delivering,
        set_to(*PROMPTS, b.key("p1"), "coordinator_turn_id", to="turn-x"),
        f"requests.prompts.{b.key('p1')}.coordinator_turn_id",
    ),
    "prompt.request_ids_unique": Case(
        b.delivering,
        _twice(*PROMPTS, b.key("p1"), under=b.key("p2"), key_digest=b.key("p2")),
        "requests.prompts",
    ),
    "report.key": Case(
        b.done,
        _refile(*REPORTS, REPORT, under="report-" + "0" * 64),
        f"canonical.reports.report-{'0' * 64}",
    ),
    "report.session": Case(
        b.done,
        set_to(*REPORTS, REPORT, "session_id", to="s-2"),
        f"canonical.reports.{REPORT}.session_id",
    ),
    "report.turn": Case(
        b.done,
        set_to(*REPORTS, REPORT, "turn_id", to="turn-x"),
        f"canonical.reports.{REPORT}.turn_id",
    ),
    "report.evidence_unique": Case(
        b.done,
        set_to(*REPORTS, REPORT, "evidence_paths", to=["log", "log"]),
        f"canonical.reports.{REPORT}.evidence_paths",
    ),
    "report.operation_ids_unique": Case(
        b.done,
        _twice(*REPORTS, REPORT, under="report-" + "0" * 64, report_id="report-" + "0" * 64),
        "canonical.reports",
    ),
    "queue.unique": Case(
        b.queued,
        set_to(*QUEUE, "ordered_turn_ids", to=[F1, F2, F1]),
        "canonical.queue.ordered_turn_ids",
    ),
    "queue.queued": Case(
        b.done, set_to(*QUEUE, "ordered_turn_ids", to=[P1]), "canonical.queue.ordered_turn_ids"
    ),
    "queue.complete": Case(
        b.queued, set_to(*QUEUE, "ordered_turn_ids", to=[F1]), f"canonical.turns.{F2}"
    ),
    "queue.active": Case(
        b.done, set_to(*QUEUE, "active_turn_id", to=P1), "canonical.queue.active_turn_id"
    ),
    "queue.single_active": Case(
        b.delivering, set_to(*QUEUE, "active_turn_id", to=None), f"canonical.turns.{P1}"
    ),
    "queue.promotion": Case(
        b.promoted,
        set_to(*QUEUE, "selected_promotion", "from_turn_id", to="turn-x"),
        "canonical.queue.selected_promotion",
    ),
    "queue.promotion_revision": Case(
        b.promoted,
        set_to(*QUEUE, "selected_promotion", "revision", to=99),
        "canonical.queue.selected_promotion.revision",
    ),
    "gate.key": Case(
        b.deferred, _refile(*GATES, GATE, under="a gate"), "canonical.gate_authorities.a gate"
    ),
    "gate.identity": Case(
        b.asking,
        set_to(*GATES, GATE, "authority", "session_id", to="s-2"),
        f"canonical.gate_authorities.{GATE}.authority",
    ),
    "gate.deferred_unlinked": Case(
        b.deferred,
        set_to(*GATES, GATE, "observation", "first_provenance", "coordinator_turn_id", to=P1),
        f"canonical.gate_authorities.{GATE}",
    ),
    "gate.provenance": Case(
        b.asking,
        set_to(*GATES, GATE, "observation", "first_provenance", "coordinator_turn_id", to="turn-x"),
        f"canonical.gate_authorities.{GATE}.observation",
    ),
    "gate.question": Case(
        b.asking,
        set_to(*GATES, GATE, "outcome", "question_id", to="q-x"),
        f"canonical.gate_authorities.{GATE}.outcome",
    ),
    "question.key": Case(
        b.asking,
        set_to(*QUESTIONS, QUESTION, "question_id", to="q-x"),
        f"canonical.questions.{QUESTION}",
    ),
    "question.session": Case(
        b.asking,
        set_to(*QUESTIONS, QUESTION, "session_id", to="s-2"),
        f"canonical.questions.{QUESTION}.session_id",
    ),
    "question.authority": Case(
        b.asking,
        set_to(*GATES, to={}),
        f"canonical.questions.{QUESTION}.authority_id",
    ),
    "question.turn": Case(
        b.asking,
        _both(
            set_to(*QUESTIONS, QUESTION, "turn_id", to="turn-x"),
            set_to(*GATES, GATE, "outcome", to={"state": "stale", "reason": "turn_ended"}),
        ),
        f"canonical.questions.{QUESTION}.turn_id",
    ),
    "question.incarnation": Case(
        b.asking,
        set_to(*QUESTIONS, QUESTION, "endpoint_incarnation", to="inc-2"),
        f"canonical.questions.{QUESTION}.endpoint_incarnation",
    ),
    "question.binding": Case(
        b.asking, set_to(*QUESTIONS, QUESTION, "binding_sha256", to="0" * 64), BINDING
    ),
    "question.pending_unclaimed": Case(
        b.asking,
        set_to(*QUESTIONS, QUESTION, "claim_fence_epoch", to=1),
        f"canonical.questions.{QUESTION}",
    ),
    "question.claim": Case(b.resolving, set_to(*ANSWERS, to={}), f"canonical.questions.{QUESTION}"),
    "question.answered_at": Case(
        b.answered,
        set_to(*QUESTIONS, QUESTION, "answered_at", to=None),
        f"canonical.questions.{QUESTION}.answered_at",
    ),
    "answer.key": Case(b.answered, _refile(*ANSWERS, W1, under=W2), f"requests.answers.{W2}"),
    "answer.question": Case(
        b.resolving, set_to(*ANSWERS, W1, "turn_id", to="turn-x"), f"requests.answers.{W1}"
    ),
    "answer.link": Case(
        b.resolving, set_to(*ANSWERS, W1, "claim_fence_epoch", to=2), f"requests.answers.{W1}"
    ),
    "answer.receipt": Case(
        b.answered,
        set_to(*ANSWERS, W1, "safe_receipt", "answer_hash", to="0" * 64),
        f"requests.answers.{W1}.safe_receipt.answer_hash",
    ),
    "answer.request_ids_unique": Case(
        b.answered, _twice(*ANSWERS, W1, under=W2, key_digest=W2), "requests.answers"
    ),
    "operation.key": Case(
        b.stopping,
        _refile(*OPERATIONS, STOP, under="stop-x"),
        "requests.operations.stop-x",
    ),
    "event.key": Case(b.idle, _refile("outbox", EVENT, under="txn:x"), "outbox.txn:x"),
    "event.revision": Case(
        b.idle,
        set_to("outbox", EVENT, "transaction_revision", to=2),
        f"outbox.{EVENT}.transaction_revision",
    ),
    "event.delivery": Case(
        b.published,
        set_to("outbox", EVENT, "public_delivery", "acknowledged_at", to=None),
        f"outbox.{EVENT}.public_delivery",
    ),
    "event.public_ids_unique": Case(
        b.idle, _twice("outbox", EVENT, under="txn:x", id="txn:x"), "outbox"
    ),
}

ALSO: dict[str, list[Case]] = {
    "event.delivery": [
        Case(
            b.idle,
            set_to("outbox", EVENT, "public_delivery", "public_event_id", to="txn:x"),
            f"outbox.{EVENT}.public_delivery",
        )
    ],
    "gate.provenance": [
        Case(
            b.asking,
            set_to(*GATES, GATE, "observation", "first_provenance", "session_id", to="s-2"),
            f"canonical.gate_authorities.{GATE}.observation",
        )
    ],
    "gate.question": [
        Case(
            b.asking,
            set_to(*QUESTIONS, to={}),
            f"canonical.gate_authorities.{GATE}.outcome",
        )
    ],
    "turn.terminal_fenced": [
        Case(b.done, set_to(*TURNS, P1, field, to=None), f"canonical.turns.{P1}")
        for field in ("completed_at", "terminal_fence")
    ],
    "turn.active_started": [
        Case(b.active, set_to(*TURNS, P1, "completed_at", to=b.moment()), f"canonical.turns.{P1}")
    ],
    "queue.promotion": [
        Case(
            b.promoted,
            set_to(*QUEUE, "selected_promotion", "to_turn_id", to="turn-x"),
            "canonical.queue.selected_promotion",
        )
    ],
    "answer.receipt": [
        Case(
            b.answered,
            set_to(*ANSWERS, W1, "safe_receipt", field, to=value),
            f"requests.answers.{W1}.safe_receipt.{field}",
        )
        for field, value in (
            ("answer_binding_sha256", "0" * 64),
            ("authority_id", "gate-x"),
            ("turn_id", "turn-x"),
            ("endpoint_incarnation", "inc-2"),
            ("claim_fence_epoch", 2),
        )
    ],
}
"""Further ways to break a rule alone."""


def broken(case: Case) -> bytes:
    """The bytes of the case's broken document."""
    document = json.loads(encode(case.base()))
    case.break_it(document)
    return json.dumps(document).encode()
