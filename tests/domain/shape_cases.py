"""Documents of the wrong shape; `test_rules.py` shows what is said of them."""

from __future__ import annotations

from tests.domain import builders as b
from tests.domain.rule_cases import (
    ANSWERS,
    EVENT,
    GATE,
    GATES,
    OPERATIONS,
    P1,
    PROMPTS,
    QUESTION,
    QUESTIONS,
    REPORT,
    REPORTS,
    STOP,
    TURNS,
    W1,
    Case,
    set_to,
)

SHAPES: dict[str, Case] = {
    "a revision of zero": Case(b.idle, set_to("revision", to=0), "revision"),
    "a revision as text": Case(b.idle, set_to("revision", to="1"), "revision"),
    "an unknown schema": Case(b.idle, set_to("schema_version", to=1), "schema_version"),
    "an unknown field": Case(b.idle, set_to("phase", to="claimed"), "phase"),
    "a creation digest that is none": Case(
        b.idle, set_to("creation_intent_digest", to="abc"), "creation_intent_digest"
    ),
    "no working directory": Case(
        b.idle, set_to("canonical", "session", "cwd", to=""), "canonical.session.cwd"
    ),
    "a time without an offset": Case(
        b.idle,
        set_to("canonical", "session", "created_at", to="2026-01-01T00:00:00"),
        "canonical.session.created_at",
    ),
    "a verifier without its key id": Case(
        b.idle,
        set_to("canonical", "session", "broker", "sidecar_verifier", "key_id", to="k"),
        "canonical.session.broker.sidecar_verifier.key_id",
    ),
    "an unknown session state": Case(
        b.idle,
        set_to("canonical", "desired_session_state", to="busy"),
        "canonical.desired_session_state",
    ),
    "turns as a list": Case(b.idle, set_to(*TURNS, to=[]), "canonical.turns"),
    "an unknown turn status": Case(
        b.delivering, set_to(*TURNS, P1, "status", to="running"), f"canonical.turns.{P1}.status"
    ),
    "a delivery flag as text": Case(
        b.delivering,
        set_to(*TURNS, P1, "delivery", "delivered", to="yes"),
        f"canonical.turns.{P1}.delivery.delivered",
    ),
    "an unknown delivery state": Case(
        b.delivering,
        set_to(*TURNS, P1, "delivery", "state", to="lost"),
        f"canonical.turns.{P1}.delivery.state",
    ),
    "a fence before the first revision": Case(
        b.done,
        set_to(*TURNS, P1, "terminal_fence", "epoch", to=0),
        f"canonical.turns.{P1}.terminal_fence.epoch",
    ),
    "a response that isn't markdown": Case(
        b.done,
        set_to(*TURNS, P1, "final_response", "format", to="html"),
        f"canonical.turns.{P1}.final_response.format",
    ),
    "an unknown prompt operation": Case(
        b.delivering,
        set_to(*PROMPTS, b.key("p1"), "operation", to="turn.retry"),
        f"requests.prompts.{b.key('p1')}.operation",
    ),
    "a receipt that accepts nothing": Case(
        b.active,
        set_to(*PROMPTS, b.key("p1"), "runtime_receipt", "accepted", to=False),
        f"requests.prompts.{b.key('p1')}.runtime_receipt.accepted",
    ),
    "a report id that is none": Case(
        b.done,
        set_to(*REPORTS, REPORT, "report_id", to="report-1"),
        f"canonical.reports.{REPORT}.report_id",
    ),
    "an empty stage": Case(
        b.asking,
        set_to(*GATES, GATE, "observation", "first_provenance", "stage", to=""),
        f"canonical.gate_authorities.{GATE}.observation.valid.first_provenance.stage",
    ),
    "an unknown gate outcome": Case(
        b.asking,
        set_to(*GATES, GATE, "outcome", "state", to="open"),
        f"canonical.gate_authorities.{GATE}.outcome",
    ),
    "an unknown reason for a malformed gate": Case(
        b.asking,
        set_to(
            *GATES,
            GATE,
            "observation",
            to={"kind": "malformed", "immutable_observation_digest": "0" * 64, "malformed": "x"},
        ),
        f"canonical.gate_authorities.{GATE}.observation.malformed.malformed",
    ),
    "an unknown question status": Case(
        b.asking,
        set_to(*QUESTIONS, QUESTION, "status", to="open"),
        f"canonical.questions.{QUESTION}.status",
    ),
    "an answer before the first claim": Case(
        b.answered,
        set_to(*ANSWERS, W1, "claim_fence_epoch", to=0),
        f"requests.answers.{W1}.claim_fence_epoch",
    ),
    "an operation without an intent": Case(
        b.stopping,
        set_to(*OPERATIONS, STOP, "intent", to=None),
        f"requests.operations.{STOP}.intent",
    ),
    "an event about something unknown": Case(
        b.idle, set_to("outbox", EVENT, "entity", to="user"), f"outbox.{EVENT}.entity"
    ),
    "a public event id with a space": Case(
        b.idle,
        set_to("outbox", EVENT, "public_event_id", to="a b"),
        f"outbox.{EVENT}.public_event_id",
    ),
    "a journal sequence of zero": Case(
        b.published,
        set_to("outbox", EVENT, "public_delivery", "journal_seq", to=0),
        f"outbox.{EVENT}.public_delivery.journal_seq",
    ),
    "a payload with structure": Case(
        b.idle,
        set_to("outbox", EVENT, "payload", "more", to={"a": 1}),
        f"outbox.{EVENT}.payload.more.str",
    ),
    "an endpoint without its incarnation": Case(
        b.idle, set_to("endpoint", "incarnation", to=""), "endpoint.incarnation"
    ),
    "a watermark that is no time": Case(
        b.idle, set_to("recovery", "prompt_watermark_at", to="noon"), "recovery.prompt_watermark_at"
    ),
}
