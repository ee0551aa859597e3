"""What the runtime reports: turns end once, late words are filed, a lost runtime ends all."""

from __future__ import annotations

import pytest

from muster.domain.changes import RecordEvents
from muster.domain.runtime import AgentExited, EndpointClosed, MessageChunk, RejectedEvent
from muster.domain.session_document import SessionDocument, SessionState
from muster.domain.turn_model import TERMINAL_TURN, Turn, TurnStatus
from tests.domain import builders as b


def _turn(document: SessionDocument, name: str) -> Turn:
    return document.canonical.turns[b.turn_of(name)]


def _reports_of(document: SessionDocument, name: str) -> list[str]:
    return [
        report.status
        for report in document.canonical.reports.values()
        if report.turn_id == b.turn_of(name)
    ]


def test_every_ended_turn_has_exactly_one_report() -> None:
    document = b.after(
        b.queued(),
        b.cancel("c1", "f2"),
        b.events(b.ended(2, "p1", text="first\n  line")),
        b.failure("f1"),
    )
    for turn in document.canonical.turns.values():
        assert turn.status in TERMINAL_TURN
    assert [_reports_of(document, name) for name in ("p1", "f1", "f2")] == [
        ["completed"],
        ["failed"],
        ["cancelled"],
    ]
    summaries = {report.turn_id: report.summary for report in document.canonical.reports.values()}
    assert summaries[b.turn_of("p1")] == "first line"
    assert summaries[b.turn_of("f1")] == "it broke"


@pytest.mark.parametrize(
    ("stop_reason", "status", "code"),
    [
        ("end_turn", TurnStatus.COMPLETED, None),
        ("max_tokens", TurnStatus.COMPLETED, None),
        ("cancelled", TurnStatus.CANCELLED, None),
        ("refusal", TurnStatus.FAILED, "agent_refusal"),
        ("error", TurnStatus.FAILED, "agent_error"),
    ],
)
def test_a_turn_ends_as_its_stop_reason_says(
    stop_reason: b.StopReason, status: TurnStatus, code: str | None
) -> None:
    document = b.after(b.active(), b.events(b.ended(2, "p1", stop_reason)))
    turn = _turn(document, "p1")
    assert turn.status == status
    assert turn.stop_reason == stop_reason
    assert (turn.error.code if turn.error else None) == code
    assert document.canonical.desired_session_state == SessionState.READY_FOR_INPUT


def test_a_turn_keeps_its_response_usage_and_the_heads_before_and_after() -> None:
    ended = b.ended(
        2, "p1", text="**done**", usage={"tokens": 7}, head_before="aaa", head_after="bbb"
    )
    turn = _turn(b.after(b.active(), b.events(ended)), "p1")
    assert turn.final_response.text == "**done**"
    assert turn.final_response.sha256 == ended.response.sha256
    assert turn.usage == {"tokens": 7}
    (evidence,) = turn.evidence
    assert (evidence["head_before"], evidence["head_after"]) == ("aaa", "bbb")


def test_a_turn_cancelled_in_the_queue_never_started() -> None:
    document = b.after(b.queued(), b.cancel("c1", "f1"))
    assert _turn(document, "f1").started_at is None


def test_events_at_or_before_the_cursor_are_not_applied_again() -> None:
    document = b.done()
    assert b.after(document, b.events(b.started(1, "p1"), b.ended(2, "p1")), minutes=9) is document


def test_an_older_batch_after_a_newer_one_moves_nothing_back() -> None:
    document = b.done()
    assert b.after(document, RecordEvents(events=(), cursor=1), minutes=9) is document


def test_streamed_output_moves_the_cursor_and_nothing_else() -> None:
    before = b.active()
    chunk = MessageChunk(seq=2, at=b.moment(), turn_id=b.turn_of("p1"), text="hm")
    document = b.after(before, b.events(chunk))
    assert document.recovery.runtime_cursor == 2
    assert document.canonical.turns == before.canonical.turns


def test_a_late_end_is_filed_under_its_own_turn_and_changes_neither_status_nor_successor() -> None:
    failed = b.after(b.queued(), b.failure("p1"))
    assert failed.canonical.queue.active_turn_id == b.turn_of("f1")
    document = b.after(failed, b.events(b.ended(2, "p1", text="too late")))
    assert _turn(document, "p1").status == TurnStatus.FAILED
    assert _turn(document, "p1").final_response.text == "too late"
    assert [each["kind"] for each in _turn(document, "p1").evidence] == ["late_end", "working_tree"]
    assert _turn(document, "f1") == _turn(failed, "f1")
    assert _reports_of(document, "p1") == ["failed"]


def test_events_of_a_turn_that_nobody_knows_are_passed_over() -> None:
    before = b.active()
    document = b.after(before, b.events(b.started(2, "ghost"), b.ended(3, "ghost")))
    assert document.recovery.runtime_cursor == 3
    assert document.canonical.turns == before.canonical.turns


def test_an_end_without_a_receipt_acknowledges_the_delivery_too() -> None:
    document = b.after(b.delivering(), b.events(b.ended(1, "p1")))
    assert _turn(document, "p1").delivery.runtime_turn_id == "rt-p1"
    assert _turn(document, "p1").status == TurnStatus.COMPLETED


@pytest.mark.parametrize(
    "last_word",
    [
        b.events(gone=True, cursor=1),
        b.events(AgentExited(seq=2, at=b.moment(), exit_code=1)),
        b.events(EndpointClosed(seq=2, at=b.moment())),
        b.failure("p1", "runtime_gone", runtime_gone=True),
    ],
)
def test_a_runtime_that_is_gone_ends_what_runs_and_what_waits_each_with_a_report(
    last_word: object,
) -> None:
    document = b.after(b.queued(), last_word)  # type: ignore[arg-type]
    for name in ("p1", "f1", "f2"):
        assert _turn(document, name).status == TurnStatus.FAILED
        assert _reports_of(document, name) == ["failed"]
    assert _turn(document, "f1").started_at is None, "a queued turn never was at the runtime"
    assert document.canonical.queue.active_turn_id is None
    assert document.canonical.desired_session_state == SessionState.ERRORED
    assert document.recovery.runtime_gone_reason
    assert b.after(document, last_word, minutes=9) is document  # type: ignore[arg-type]


def test_what_a_gone_runtime_still_said_is_applied_before_its_end() -> None:
    document = b.after(b.queued(), b.events(b.ended(2, "p1"), gone=True))
    assert _turn(document, "p1").status == TurnStatus.COMPLETED
    assert _turn(document, "f1").status == TurnStatus.FAILED


def test_a_gate_that_nobody_will_explain_any_more_doesn_t_hold_up_the_last_events() -> None:
    last = b.events(b.gate(1, "g1", "p1", turn_id="elsewhere"), b.ended(2, "p1"), gone=True)
    document = b.after(b.delivering(), last)
    assert _turn(document, "p1").status == TurnStatus.COMPLETED
    assert document.recovery.runtime_cursor == 2
    assert document.canonical.gate_authorities[b.authority_of("g1")].outcome.state == "uncertain"


def test_a_rejected_event_is_kept_by_its_digest_once_and_never_applied() -> None:
    rejected = RejectedEvent(
        seq=2, digest="d" * 64, malformed="wrong_session", reason="signed for another session"
    )
    change = b.events(rejected=(rejected,), cursor=2)
    document = b.after(b.active(), change)
    gate = document.canonical.gate_authorities["gate-" + "d" * 40]
    assert gate.outcome.state == "ownership_conflict"
    assert document.canonical.questions == {}
    assert b.after(document, change, minutes=9) is document


def test_acknowledging_events_twice_keeps_the_first_sequence() -> None:
    before = b.done()
    change = b.acknowledged(before)
    document = b.after(before, change)
    assert all(event.public_delivery.journal_seq for event in document.outbox.values())
    later = change.model_copy(
        update={
            "acknowledgements": tuple(
                each.model_copy(update={"journal_seq": each.journal_seq + 50})
                for each in change.acknowledgements
            )
        }
    )
    assert b.after(document, later, minutes=9) is document


def test_each_step_of_a_turn_owes_one_public_event() -> None:
    document = b.after(
        b.asking(), b.answer("w1", "g1"), b.settled("w1"), b.events(b.ended(3, "p1"))
    )
    kinds = sorted((event.transaction_revision, event.kind) for event in document.outbox.values())
    assert [kind for _, kind in kinds] == [
        "session.created",
        "turn.queued",
        "turn.started",
        "question.opened",
        "question.answered",
        "turn.completed",
    ]
