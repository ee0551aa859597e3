"""Prompts: accepted, queued, refused, and answered the same for the same key."""

from __future__ import annotations

import pytest

from muster.domain.changes import PromptAccepted
from muster.domain.errors import (
    ActiveTurnExists,
    IdempotencyConflict,
    QueueFull,
    RuntimeGone,
    SessionClosing,
)
from muster.domain.session_document import SessionDocument, SessionPolicy, SessionState
from muster.domain.transitions import apply
from muster.domain.turn_model import TurnStatus
from tests.domain import builders as b


def _status(document: SessionDocument, name: str) -> TurnStatus:
    return document.canonical.turns[b.turn_of(name)].status


def test_a_prompt_to_an_idle_session_starts_its_turn() -> None:
    document, accepted = b.outcome(b.idle(), b.prompt("p1"), PromptAccepted)
    assert accepted.position == 0
    assert document.canonical.queue.active_turn_id == accepted.turn_id == b.turn_of("p1")
    assert _status(document, "p1") == TurnStatus.DELIVERING
    assert document.canonical.desired_session_state == SessionState.RUNNING


@pytest.mark.parametrize("busy", [b.delivering, b.active, b.asking])
def test_a_prompt_is_refused_while_a_turn_is_active_and_the_refusal_names_it(
    busy: object,
) -> None:
    assert callable(busy)
    with pytest.raises(ActiveTurnExists) as refused:
        apply(busy(), b.prompt("p2"), b.moment())
    assert refused.value.details["turn_id"] == b.turn_of("p1")


def test_follow_ups_wait_in_the_order_in_which_they_came() -> None:
    document, first = b.outcome(b.active(), b.follow_up("f1"), PromptAccepted)
    document, second = b.outcome(document, b.follow_up("f2"), PromptAccepted)
    assert (first.position, second.position) == (1, 2)
    assert document.canonical.queue.ordered_turn_ids == (b.turn_of("f1"), b.turn_of("f2"))
    document = b.after(document, b.events(b.ended(2, "p1")))
    assert document.canonical.queue.active_turn_id == b.turn_of("f1")
    assert document.canonical.queue.ordered_turn_ids == (b.turn_of("f2"),)


def test_a_follow_up_to_an_idle_session_starts_at_once() -> None:
    document, accepted = b.outcome(b.idle(), b.follow_up("f1"), PromptAccepted)
    assert accepted.position == 0
    assert _status(document, "f1") == TurnStatus.DELIVERING


def test_a_full_queue_says_so_and_accepts_nothing() -> None:
    full = b.after(
        b.idle(SessionPolicy(queue_limit=2)), b.prompt("p1"), b.follow_up("f1"), b.follow_up("f2")
    )
    for late in (b.follow_up("f3"), b.abort("a1")):
        with pytest.raises(QueueFull) as refused:
            apply(full, late, b.moment())
        assert refused.value.details["limit"] == 2


def test_an_aborting_prompt_starts_only_once_the_aborted_turn_has_settled() -> None:
    document = b.promoted()
    assert _status(document, "p1") == TurnStatus.ACTIVE
    assert _status(document, "a1") == TurnStatus.QUEUED
    document = b.after(document, b.events(b.ended(2, "p1", "cancelled")))
    assert _status(document, "p1") == TurnStatus.SUPERSEDED
    assert _status(document, "a1") == TurnStatus.DELIVERING
    assert document.canonical.queue.ordered_turn_ids == (b.turn_of("f1"),)


def test_an_aborted_turn_that_finishes_first_is_completed_and_the_new_one_still_is_next() -> None:
    document = b.after(b.promoted(), b.events(b.ended(2, "p1", "end_turn")))
    assert _status(document, "p1") == TurnStatus.COMPLETED
    assert document.canonical.queue.active_turn_id == b.turn_of("a1")


def test_the_latest_of_two_aborting_prompts_is_next() -> None:
    document = b.after(b.promoted(), b.abort("a2"), b.events(b.ended(2, "p1", "cancelled")))
    assert document.canonical.queue.active_turn_id == b.turn_of("a2")
    assert document.canonical.queue.ordered_turn_ids == (b.turn_of("a1"), b.turn_of("f1"))


def test_a_turn_whose_replacement_was_taken_back_is_cancelled_not_superseded() -> None:
    document = b.after(b.active(), b.abort("a1"), b.cancel("c1", "a1"))
    document = b.after(document, b.events(b.ended(2, "p1", "cancelled")))
    assert _status(document, "p1") == TurnStatus.CANCELLED
    assert document.canonical.queue.active_turn_id is None


@pytest.mark.parametrize("later", [b.active, b.done, b.closing])
def test_the_same_key_and_request_hear_the_first_answer_whatever_has_happened_since(
    later: object,
) -> None:
    assert callable(later)
    document = later()
    again, accepted = b.outcome(document, b.prompt("p1"), PromptAccepted)
    assert again is document
    assert accepted == PromptAccepted(
        request_id=f"prompt-{b.key('p1')[:32]}",
        turn_id=b.turn_of("p1"),
        position=0,
        repeated=True,
    )


def test_a_queued_prompt_s_key_still_hears_its_first_position_after_it_has_moved_up() -> None:
    document = b.after(b.queued(), b.events(b.ended(2, "p1")))
    _, accepted = b.outcome(document, b.follow_up("f2"), PromptAccepted)
    assert (accepted.position, accepted.repeated) == (2, True)


@pytest.mark.parametrize(
    ("change", "fields"),
    [
        (b.prompt("p1", "something else"), ["text"]),
        (b.follow_up("p1", "do it"), ["operation"]),
        (b.follow_up("p1", "something else"), ["operation", "text"]),
    ],
)
def test_the_same_key_with_another_request_is_a_conflict_that_names_what_differs(
    change: object, fields: list[str]
) -> None:
    with pytest.raises(IdempotencyConflict) as refused:
        apply(b.active(), change, b.moment())  # type: ignore[arg-type]
    assert refused.value.details["fields"] == fields
    assert all(field in refused.value.message for field in fields)


def test_a_closing_session_takes_no_prompt() -> None:
    with pytest.raises(SessionClosing):
        apply(b.closing(), b.prompt("p2"), b.moment())


def test_a_session_whose_agent_is_gone_takes_no_prompt_and_says_why() -> None:
    gone = b.after(b.done(), b.events(gone=True, cursor=2))
    with pytest.raises(RuntimeGone, match="the runtime has ended"):
        apply(gone, b.prompt("p2"), b.moment())


def test_the_first_receipt_of_a_delivery_stays() -> None:
    document = b.active()
    other = b.delivered("p1").model_copy(update={"receipt": b.receipt("other")})
    assert b.after(document, other) is document
    request = document.requests.prompts[b.key("p1")]
    assert request.runtime_receipt == b.receipt("p1")


def test_a_receipt_that_comes_after_the_turn_has_failed_is_filed_and_changes_no_status() -> None:
    document = b.after(b.delivering(), b.failure("p1"), b.delivered("p1"))
    turn = document.canonical.turns[b.turn_of("p1")]
    assert turn.status == TurnStatus.FAILED
    assert turn.delivery.runtime_turn_id == "rt-p1"
    assert not any(event.kind == "turn.started" for event in document.outbox.values())
