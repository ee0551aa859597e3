"""Gates become questions once; an answer is claimed once; the others hear what won."""

from __future__ import annotations

from typing import Any

import pytest

from muster.domain.changes import AnswerClaimed
from muster.domain.control import control_of
from muster.domain.errors import (
    AlreadyAnswered,
    IdempotencyConflict,
    InvalidInput,
    QuestionCancelled,
    ResourceGone,
    SessionClosing,
    TerminalUncertain,
)
from muster.domain.gate_model import MalformedObservation, Question
from muster.domain.session_document import SessionDocument, SessionState
from muster.domain.session_rules import check_document
from muster.domain.transitions import apply
from muster.domain.turn_model import TurnStatus
from tests.domain import builders as b

P1 = b.turn_of("p1")


def _question(document: SessionDocument, gate: str = "g1") -> Question:
    return document.canonical.questions[b.question_of(gate)]


def _outcome_of(document: SessionDocument, gate: str = "g1") -> str:
    return document.canonical.gate_authorities[b.authority_of(gate)].outcome.state


def test_a_gate_of_a_running_turn_becomes_a_question_and_the_turn_waits() -> None:
    document = b.asking()
    assert _question(document).status == "pending"
    assert _question(document).prompt == "May I?"
    assert document.canonical.turns[P1].status == TurnStatus.WAITING_FOR_ANSWER
    assert document.canonical.desired_session_state == SessionState.NEEDS_USER_INPUT


def test_a_gate_that_is_seen_again_doesn_t_ask_again() -> None:
    document = b.after(b.answered(), b.events(b.gate(3, "g1", "p1", prompt="Again?")))
    assert _question(document).status == "answered"
    assert _question(document).prompt == "May I?"
    assert len(document.canonical.questions) == 1


def test_a_gate_waits_for_its_turn_while_one_is_on_its_way_to_the_runtime() -> None:
    document = b.deferred()
    assert _outcome_of(document) == "deferred_link"
    assert document.recovery.runtime_cursor == 0, "the gate is to be read again"
    gate = b.gate(1, "g1", "p1", turn_id="elsewhere")
    assert b.after(document, b.events(gate), minutes=9) is document
    linked = b.after(document, b.delivered("p1"), b.events(gate))
    assert _outcome_of(linked) == "pending"
    assert _question(linked).turn_id == P1


def test_events_behind_a_waiting_gate_wait_with_it() -> None:
    batch = b.events(b.gate(1, "g1", "p1", turn_id="elsewhere"), b.ended(2, "p1"))
    document = b.after(b.delivering(), batch)
    assert document.recovery.runtime_cursor == 0
    assert document.canonical.turns[P1].status == TurnStatus.DELIVERING


def test_a_gate_of_a_turn_that_nobody_knows_is_uncertain() -> None:
    gate = b.gate(2, "g1", "ghost")
    document = b.after(b.active(), b.events(gate))
    assert _outcome_of(document) == "uncertain"
    assert document.recovery.runtime_cursor == 2


def test_a_gate_of_a_turn_that_has_ended_is_stale() -> None:
    document = b.after(b.done(), b.events(b.gate(3, "g1", "p1")))
    assert _outcome_of(document) == "stale"
    assert document.canonical.questions == {}


def test_a_gate_that_names_our_turn_and_another_runtime_turn_is_in_conflict() -> None:
    document = b.after(b.active(), b.events(b.gate(2, "g1", "p1", runtime_turn_id="rt-other")))
    assert _outcome_of(document) == "ownership_conflict"


def test_a_deferred_gate_that_closes_is_stale() -> None:
    closed = b.after(b.deferred(), b.events(b.gate_closed(2, "g1", "p1", None)))
    assert _outcome_of(closed) == "stale"


@pytest.mark.parametrize(
    ("fields", "malformed"),
    [
        ({"runtime_turn_id": ""}, "missing_runtime_turn"),
        ({"runtime_turn_id": "two words"}, "invalid_runtime_turn"),
        ({"gate_id": ""}, "invalid_gate_row"),
        ({"gate_id": "../g"}, "invalid_gate_row"),
        ({"stage": ""}, "invalid_gate_row"),
        ({"kind": ""}, "invalid_gate_row"),
        ({"at": "yesterday"}, "invalid_gate_row"),
    ],
)
def test_a_gate_that_can_t_be_read_is_kept_by_digest_and_holds_nothing_up(
    fields: dict[str, Any], malformed: str
) -> None:
    batch = b.events(b.gate(2, "g1", "p1", **fields), b.ended(3, "p1"))
    document = b.after(b.active(), batch)
    (kept,) = document.canonical.gate_authorities.values()
    assert isinstance(kept.observation, MalformedObservation)
    assert kept.observation.malformed == malformed
    assert document.canonical.turns[P1].status == TurnStatus.COMPLETED
    check_document(document)
    assert b.after(document, batch, minutes=9) is document


def test_an_answer_is_claimed_with_what_the_runtime_must_be_told() -> None:
    document, claimed = b.outcome(b.asking(), b.answer("w1", "g1"), AnswerClaimed)
    assert (claimed.gate_id, claimed.option_id, claimed.status) == ("g1", "allow", "claimed")
    assert _question(document).status == "resolving"
    assert [each.key_digest for each in control_of(document).claims] == [b.key("w1")]


def test_an_accepted_answer_lets_the_turn_go_on() -> None:
    document = b.answered()
    assert _question(document).status == "answered"
    assert _outcome_of(document) == "answered"
    assert document.canonical.turns[P1].status == TurnStatus.ACTIVE
    assert control_of(document).claims == ()


@pytest.mark.parametrize("taken", [b.resolving, b.answered])
def test_a_second_answer_hears_what_won(taken: object) -> None:
    assert callable(taken)
    with pytest.raises(AlreadyAnswered) as refused:
        apply(taken(), b.answer("w2", "g1", "reject"), b.moment())
    assert refused.value.details["option_id"] == "allow"
    assert "allow" in refused.value.message


def test_the_same_answer_s_key_hears_how_it_stands() -> None:
    for document, status in ((b.resolving(), "claimed"), (b.answered(), "accepted")):
        again, claimed = b.outcome(document, b.answer("w1", "g1"), AnswerClaimed)
        assert again is document
        assert (claimed.status, claimed.repeated) == (status, True)


def test_the_same_key_with_another_option_is_a_conflict_that_names_it() -> None:
    with pytest.raises(IdempotencyConflict) as refused:
        apply(b.answered(), b.answer("w1", "g1", "reject"), b.moment())
    assert refused.value.details["fields"] == ["option_id"]


def test_a_rejected_answer_opens_the_question_again_and_stays_on_record() -> None:
    document = b.after(b.resolving(), b.settled("w1", "rejected"))
    assert _question(document).status == "pending"
    corrected = b.after(document, b.answer("w2", "g1", "reject"), b.settled("w2"))
    assert _question(corrected).answered_option_id == "reject"
    _, first = b.outcome(corrected, b.answer("w1", "g1"), AnswerClaimed)
    assert (first.status, first.option_id) == ("rejected", "allow")
    claims = corrected.requests.answers
    assert claims[b.key("w2")].claim_fence_epoch > claims[b.key("w1")].claim_fence_epoch


@pytest.mark.parametrize("order", ["receipt first", "log first"])
def test_the_log_and_the_receipt_settle_an_answer_alike_in_either_order(order: str) -> None:
    log, told = b.events(b.gate_closed(3, "g1", "p1", "allow")), b.settled("w1")
    steps = (told, log) if order == "receipt first" else (log, told)
    document = b.after(b.resolving(), *steps)
    assert _question(document).status == "answered"
    assert _question(document).answered_option_id == "allow"
    receipt = document.requests.answers[b.key("w1")].safe_receipt
    assert receipt is not None
    assert receipt.status == "accepted"


@pytest.mark.parametrize("order", ["receipt first", "log first"])
def test_an_answer_that_cancels_the_gate_is_accepted_when_the_gate_is_cancelled(
    order: str,
) -> None:
    log, told = b.events(b.gate_closed(3, "g1", "p1", None)), b.settled("w1")
    steps = (told, log) if order == "receipt first" else (log, told)
    document = b.after(b.asking(), b.answer("w1", "g1", None), *steps)
    assert _question(document).status == "answered"
    receipt = document.requests.answers[b.key("w1")].safe_receipt
    assert receipt is not None
    assert receipt.status == "accepted"


def test_a_gate_answered_elsewhere_settles_the_question_and_tells_later_answers_what_won() -> None:
    document = b.after(b.asking(), b.events(b.gate_closed(3, "g1", "p1", "reject")))
    assert _question(document).status == "answered"
    assert _question(document).history[-1].reason == "answered_elsewhere"
    with pytest.raises(AlreadyAnswered) as refused:
        apply(document, b.answer("w1", "g1"), b.moment())
    assert refused.value.details["option_id"] == "reject"


def test_a_claim_that_lost_to_another_answer_is_rejected_and_the_winner_stands() -> None:
    document = b.after(b.resolving(), b.events(b.gate_closed(3, "g1", "p1", "reject")))
    receipt = document.requests.answers[b.key("w1")].safe_receipt
    assert receipt is not None
    assert receipt.status == "rejected"
    assert _question(document).answered_option_id == "reject"
    assert b.after(document, b.settled("w1"), minutes=9) is document


def test_a_gate_cancelled_by_the_agent_ends_its_question_without_an_answer() -> None:
    document = b.after(b.asking(), b.events(b.gate_closed(3, "g1", "p1", None)))
    assert _question(document).status == "stale"
    assert document.canonical.turns[P1].status == TurnStatus.ACTIVE
    with pytest.raises(QuestionCancelled) as refused:
        apply(document, b.answer("w1", "g1"), b.moment())
    assert refused.value.details["reason"] == "cancelled"


@pytest.mark.parametrize("open_", [b.asking, b.resolving])
@pytest.mark.parametrize(
    "end",
    [
        b.events(b.ended(3, "p1", "cancelled")),
        b.failure("p1"),
        b.events(gone=True, cursor=2),
        b.close(force=True),
    ],
)
def test_the_end_of_a_turn_settles_its_open_questions_as_cancelled(
    open_: object, end: object
) -> None:
    assert callable(open_)
    document = b.after(open_(), end)  # type: ignore[arg-type]
    assert _question(document).status == "stale"
    assert _outcome_of(document) == "stale"
    assert control_of(document).claims == ()
    check_document(document)
    with pytest.raises(QuestionCancelled):
        apply(document, b.answer("w9", "g1"), b.moment())


def test_a_turn_goes_on_only_when_the_last_of_its_questions_is_settled() -> None:
    both = b.after(b.asking(), b.events(b.gate(3, "g2", "p1")))
    first = b.after(both, b.answer("w1", "g1"), b.settled("w1"))
    assert first.canonical.turns[P1].status == TurnStatus.WAITING_FOR_ANSWER
    second = b.after(first, b.answer("w2", "g2"), b.settled("w2"))
    assert second.canonical.turns[P1].status == TurnStatus.ACTIVE


def test_an_answer_must_name_an_option_of_its_question() -> None:
    with pytest.raises(InvalidInput) as refused:
        apply(b.asking(), b.answer("w1", "g1", "maybe"), b.moment())
    assert refused.value.details["options"] == ["allow", "reject"]


def test_unknown_answered_and_cancelled_are_three_different_answers() -> None:
    cancelled = b.after(b.asking(), b.events(b.gate_closed(3, "g1", "p1", None)))
    found = []
    for document, gate in ((b.asking(), "ghost"), (b.answered(), "g1"), (cancelled, "g1")):
        with pytest.raises((ResourceGone, AlreadyAnswered, QuestionCancelled)) as refused:
            apply(document, b.answer("w9", gate), b.moment())
        found.append(refused.value.code)
    assert found == ["resource_gone", "already_answered", "question_cancelled"]


def test_the_runtime_s_word_on_what_is_in_the_archive_already_changes_nothing() -> None:
    for late in (b.settled("w1"), b.delivered("p1"), b.failure("p1")):
        document = b.idle()
        assert b.after(document, late) is document


def test_an_answer_that_nobody_knows_the_fate_of_is_not_given_again() -> None:
    asking = b.asking()
    question = _question(asking).model_copy(update={"status": "uncertain"})
    canonical = asking.canonical.model_copy(update={"questions": {question.question_id: question}})
    with pytest.raises(TerminalUncertain):
        apply(asking.model_copy(update={"canonical": canonical}), b.answer("w1", "g1"), b.moment())


def test_a_closing_session_takes_no_answer() -> None:
    asking = b.asking()
    closing = asking.model_copy(update={"closing": b.closing().closing})
    with pytest.raises(SessionClosing):
        apply(closing, b.answer("w1", "g1"), b.moment())
