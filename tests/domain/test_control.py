"""The control state says what the workflow has to do, and no more."""

from __future__ import annotations

import pytest

from muster.domain.control import MusterStatus, control_of
from muster.domain.session_document import SessionDocument
from muster.domain.turn_model import TurnStatus
from tests.domain import builders as b


@pytest.mark.parametrize(
    ("document", "status"),
    [
        (b.idle(), MusterStatus.WAITING),
        (b.done(), MusterStatus.WAITING),
        (b.delivering(), MusterStatus.WORKING),
        (b.resolving(), MusterStatus.WORKING),
        (b.asking(), MusterStatus.QUESTION),
        (b.closing(), MusterStatus.CLOSING),
        (b.after(b.done(), b.events(gone=True, cursor=2)), MusterStatus.FAILED),
    ],
)
def test_an_operator_sees_one_word_for_each_state(
    document: SessionDocument, status: MusterStatus
) -> None:
    assert control_of(document).status == status


def test_a_prompt_that_isn_t_delivered_shows_under_the_key_that_makes_delivery_repeatable() -> None:
    active = control_of(b.delivering()).active
    assert active is not None
    assert not active.acknowledged
    assert active.delivery_key == f"prompt_{b.key('p1')}"
    running = control_of(b.active()).active
    assert running is not None
    assert (running.acknowledged, running.runtime_turn_id) == (True, "rt-p1")


def test_an_abort_and_a_stop_each_ask_for_the_running_turn_s_interruption() -> None:
    keys = set()
    for document in (b.promoted(), b.stopping()):
        active = control_of(document).active
        assert active is not None
        keys.add(active.interrupt_key)
    assert len(keys) == 2
    assert None not in keys


def test_the_next_turn_isn_t_interrupted_by_what_stopped_the_last_one() -> None:
    document = b.after(b.promoted(), b.events(b.ended(2, "p1", "cancelled")))
    active = control_of(document).active
    assert active is not None
    assert active.turn_id == b.turn_of("a1")
    assert active.interrupt_key is None


def test_queue_questions_events_and_the_last_turn_are_counted() -> None:
    queued = control_of(b.queued())
    assert (queued.queued, queued.next_queued) == (2, b.turn_of("f1"))
    asking = control_of(b.asking())
    assert [each.reject_option_id for each in asking.questions] == ["reject"]
    assert control_of(b.idle()).unacknowledged == 1
    assert control_of(b.published()).unacknowledged == 0
    last = control_of(b.done()).last_turn
    assert last is not None
    assert (last.turn_id, last.status) == (b.turn_of("p1"), TurnStatus.COMPLETED)
