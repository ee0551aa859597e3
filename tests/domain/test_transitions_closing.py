"""Admission of a close: what refuses it, what a forced one settles, and what a repeat hears."""

from __future__ import annotations

import pytest

from muster.domain.changes import CloseAdmitted
from muster.domain.control import MusterStatus, control_of
from muster.domain.errors import (
    ActiveTurnExists,
    EndpointStale,
    IdempotencyConflict,
    SessionNotIdle,
)
from muster.domain.transitions import apply
from muster.domain.turn_model import TERMINAL_TURN, TurnStatus
from tests.domain import builders as b


def test_an_idle_session_is_closed_and_everything_it_leaves_is_named() -> None:
    document, admitted = b.outcome(b.done(), b.close(), CloseAdmitted)
    assert admitted.turn_ids == (b.turn_of("p1"),)
    assert admitted.report_ids == tuple(document.canonical.reports)
    assert admitted.settled_turn_ids == ()
    assert control_of(document).status == MusterStatus.CLOSING


@pytest.mark.parametrize("busy", [b.delivering, b.active, b.asking, b.queued, b.promoted])
def test_a_close_is_refused_while_a_turn_runs(busy: object) -> None:
    assert callable(busy)
    with pytest.raises(ActiveTurnExists) as refused:
        apply(busy(), b.close(), b.moment())
    assert refused.value.details["turn_id"] == b.turn_of("p1")


def test_a_forced_close_settles_the_running_turn_and_the_queue_each_with_a_report() -> None:
    document, admitted = b.outcome(b.queued(), b.close(force=True), CloseAdmitted)
    names = ("p1", "f1", "f2")
    assert sorted(admitted.settled_turn_ids) == sorted(b.turn_of(name) for name in names)
    for name in names:
        assert document.canonical.turns[b.turn_of(name)].status == TurnStatus.CANCELLED
    assert sorted(report.turn_id for report in document.canonical.reports.values()) == sorted(
        b.turn_of(name) for name in names
    )
    assert document.canonical.queue.active_turn_id is None


def test_a_repeated_close_hears_what_the_first_one_settled() -> None:
    document, first = b.outcome(b.queued(), b.close(force=True), CloseAdmitted)
    again, second = b.outcome(document, b.close(force=True), CloseAdmitted)
    assert again is document
    assert second == first


@pytest.mark.parametrize("other", [b.close("other"), b.close(force=True)])
def test_a_close_under_another_key_or_with_another_request_is_a_conflict(other: object) -> None:
    with pytest.raises(IdempotencyConflict):
        apply(b.closing(), other, b.moment())  # type: ignore[arg-type]


def test_a_session_that_was_active_after_the_given_moment_is_not_idle() -> None:
    document = b.after(b.idle(), b.prompt("p1"), b.events(b.ended(1, "p1")), minutes=30)
    with pytest.raises(SessionNotIdle) as refused:
        apply(document, b.close(idle_before=b.moment(29)), b.moment(60))
    assert refused.value.details["activity_at"] == b.moment(30)
    b.outcome(document, b.close(idle_before=b.moment(30)), CloseAdmitted)


def test_publishing_events_is_no_activity() -> None:
    document = b.idle()
    document = b.after(document, b.acknowledged(document), minutes=60)
    b.outcome(document, b.close(idle_before=b.moment(1)), CloseAdmitted)


def test_a_close_of_another_incarnation_touches_nothing() -> None:
    with pytest.raises(EndpointStale) as refused:
        apply(b.idle(), b.close(incarnation="inc-2"), b.moment())
    assert refused.value.details["incarnation"] == b.INCARNATION


def test_what_the_runtime_says_after_a_forced_close_is_filed_and_starts_nothing() -> None:
    document = b.after(b.queued(), b.close(force=True), b.events(b.ended(2, "p1", "cancelled")))
    assert document.canonical.queue.active_turn_id is None
    assert {turn.status for turn in document.canonical.turns.values()} <= TERMINAL_TURN
    assert control_of(document).status == MusterStatus.CLOSING
