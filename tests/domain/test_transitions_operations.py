"""Stop, cancel and report: each once for its key, and a stop that always works."""

from __future__ import annotations

import pytest

from muster.domain.changes import OperationDone
from muster.domain.control import control_of
from muster.domain.errors import (
    ActiveTurnExists,
    IdempotencyConflict,
    InvalidInput,
    ResourceGone,
    SessionClosing,
)
from muster.domain.session_document import SessionDocument
from muster.domain.transitions import apply
from muster.domain.turn_model import TurnStatus
from tests.domain import builders as b


def _status(document: SessionDocument, name: str) -> TurnStatus:
    return document.canonical.turns[b.turn_of(name)].status


def test_stopping_nothing_is_success() -> None:
    document, done = b.outcome(b.idle(), b.stop("x1"), OperationDone)
    assert done.response == {"status": "nothing_running", "cancelled_queued": []}
    assert document.canonical.turns == {}


def test_a_stop_cancels_the_queue_asks_for_the_turn_s_end_and_is_answered_by_it() -> None:
    document, asked = b.outcome(b.queued(), b.stop("x1"), OperationDone)
    assert asked.response["status"] == "requested"
    assert [_status(document, name) for name in ("f1", "f2")] == [TurnStatus.CANCELLED] * 2
    active = control_of(document).active
    assert active is not None
    assert active.interrupt_key == f"interrupt_{asked.operation_id}"
    document = b.after(document, b.events(b.ended(2, "p1", "cancelled")))
    _, settled = b.outcome(document, b.stop("x1"), OperationDone)
    assert settled.response == {
        "turn_id": b.turn_of("p1"),
        "status": "cancelled",
        "cancelled_queued": [b.turn_of("f1"), b.turn_of("f2")],
    }
    assert document.canonical.queue.active_turn_id is None


def test_a_stop_that_keeps_the_queue_lets_the_next_turn_start() -> None:
    document = b.after(b.queued(), b.stop("x1", keep_queue=True))
    document = b.after(document, b.events(b.ended(2, "p1", "cancelled")))
    assert _status(document, "p1") == TurnStatus.CANCELLED
    assert document.canonical.queue.active_turn_id == b.turn_of("f1")


def test_a_stop_also_takes_back_the_prompt_that_was_to_replace_the_turn() -> None:
    document = b.after(b.promoted(), b.stop("x1"), b.events(b.ended(2, "p1", "cancelled")))
    assert _status(document, "p1") == TurnStatus.CANCELLED
    assert _status(document, "a1") == TurnStatus.CANCELLED
    assert document.canonical.queue.active_turn_id is None


def test_a_stop_of_a_turn_that_doesn_t_run_touches_neither_the_running_one_nor_the_queue() -> None:
    document = b.after(b.queued(), b.stop("x1", of="p0"))
    assert _status(document, "p1") == TurnStatus.ACTIVE
    assert document.canonical.queue == b.queued().canonical.queue
    active = control_of(document).active
    assert active is not None
    assert active.interrupt_key is None


def test_a_turn_whose_question_nobody_answered_in_time_fails_and_the_queue_goes_on() -> None:
    asking = b.after(b.asking(), b.follow_up("f1"))
    document = b.after(asking, b.stop("x1", keep_queue=True, reason="question_timeout"))
    document = b.after(document, b.events(b.ended(3, "p1", "cancelled")))
    turn = document.canonical.turns[b.turn_of("p1")]
    assert turn.status == TurnStatus.FAILED
    assert turn.error is not None
    assert (turn.error.code, turn.error.recoverable) == ("question_timeout", True)
    assert document.canonical.queue.active_turn_id == b.turn_of("f1")


def test_a_stop_works_on_a_closing_session() -> None:
    _, done = b.outcome(b.closing(), b.stop("x1"), OperationDone)
    assert done.response["status"] == "nothing_running"


def test_two_stops_of_one_turn_are_both_answered_by_its_end() -> None:
    document = b.after(b.active(), b.stop("x1"), b.stop("x2"))
    document = b.after(document, b.events(b.ended(2, "p1", "cancelled")))
    for name in ("x1", "x2"):
        _, done = b.outcome(document, b.stop(name), OperationDone)
        assert done.response["status"] == "cancelled"


def test_a_repeated_operation_hears_its_first_answer_and_changes_nothing() -> None:
    for document, change in (
        (b.after(b.queued(), b.cancel("c1", "f1")), b.cancel("c1", "f1")),
        (b.stopping(), b.stop("x1")),
        (b.reported(), b.report("r1", of="p1")),
    ):
        again, done = b.outcome(document, change, OperationDone)
        assert again is document
        assert done.repeated


def test_the_same_key_for_another_operation_is_a_conflict() -> None:
    with pytest.raises(IdempotencyConflict):
        apply(b.stopping(), b.stop("x1", keep_queue=True), b.moment())
    with pytest.raises(IdempotencyConflict):
        apply(b.reported(), b.report("r1", of="p1", summary="else"), b.moment())


def test_a_queued_turn_is_cancelled_with_a_report_and_the_others_keep_their_order() -> None:
    document, done = b.outcome(b.queued(), b.cancel("c1", "f1"), OperationDone)
    assert done.response == {"turn_id": b.turn_of("f1"), "status": "cancelled"}
    assert document.canonical.queue.ordered_turn_ids == (b.turn_of("f2"),)
    assert [report.turn_id for report in document.canonical.reports.values()] == [b.turn_of("f1")]


def test_cancelling_a_turn_that_has_ended_is_success_and_says_how_it_ended() -> None:
    _, done = b.outcome(b.done(), b.cancel("c1", "p1"), OperationDone)
    assert done.response == {"turn_id": b.turn_of("p1"), "status": "completed"}


def test_a_started_turn_can_t_be_cancelled_out_of_the_queue() -> None:
    with pytest.raises(ActiveTurnExists):
        apply(b.active(), b.cancel("c1", "p1"), b.moment())


def test_cancelling_a_turn_that_isn_t_there_says_so() -> None:
    with pytest.raises(ResourceGone):
        apply(b.active(), b.cancel("c1", "ghost"), b.moment())


def test_a_report_is_filed_once_for_its_operation_id() -> None:
    document = b.reported()
    filed = [each for each in document.canonical.reports.values() if each.operation_id == "r1"]
    assert [(each.turn_id, each.status, each.summary) for each in filed] == [
        (b.turn_of("p1"), "progress", "all well")
    ]


def test_a_report_names_each_piece_of_evidence_once() -> None:
    change = b.report("r1").model_copy(update={"evidence_paths": ("log", "diff", "log")})
    document = b.after(b.idle(), change)
    (filed,) = document.canonical.reports.values()
    assert filed.evidence_paths == ("log", "diff")


def test_nobody_s_report_can_take_the_place_of_the_one_that_a_turn_leaves() -> None:
    change = b.report(f"turn-end:{b.turn_of('p1')}", of="p1", summary="forged")
    with pytest.raises(InvalidInput):
        apply(b.done(), change, b.moment())


def test_a_report_about_a_turn_that_isn_t_there_or_on_a_closing_session_is_refused() -> None:
    with pytest.raises(ResourceGone):
        apply(b.idle(), b.report("r1", of="ghost"), b.moment())
    with pytest.raises(SessionClosing):
        apply(b.closing(), b.report("r2"), b.moment())
