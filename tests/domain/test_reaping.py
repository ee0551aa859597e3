"""Which sessions are idle for too long, by their document alone."""

from __future__ import annotations

from datetime import timedelta

import pytest

from muster.domain.closing import CloseCommand
from muster.domain.contract import parse_time
from muster.domain.reaping import idle_close
from muster.domain.session_document import SessionDocument, SessionPolicy
from tests.domain import builders as b

LIMIT = 600


def due(document: SessionDocument, minutes: float, **policy: object) -> CloseCommand | None:
    """The close that is due so long after the session began."""
    given = SessionPolicy.model_validate({"idle_close_seconds": LIMIT, **policy})
    return idle_close(document.model_copy(update={"policy": given}), parse_time(b.moment(minutes)))


def test_a_session_is_closed_once_it_was_idle_for_its_limit_and_not_a_second_before() -> None:
    assert due(b.idle(), LIMIT / 60 - 1 / 60) is None
    close = due(b.idle(), LIMIT / 60)
    assert close is not None
    assert close.keep_history
    assert not close.force
    assert close.idle_before == b.moment(0)


def test_without_a_limit_a_session_lives_for_ever() -> None:
    assert due(b.idle(), 1e6, idle_close_seconds=None) is None


@pytest.mark.parametrize("busy", [b.delivering, b.active, b.queued, b.promoted, b.closing])
def test_what_works_or_closes_is_never_idle(busy: object) -> None:
    assert callable(busy)
    assert due(busy(), 1e6) is None


def test_an_open_question_keeps_a_session_unless_its_policy_says_otherwise() -> None:
    assert due(b.asking(), 1e6) is None
    close = due(b.asking(), 1e6, idle_close_with_question=True)
    assert close is not None
    assert close.force


def test_the_end_of_a_turn_is_activity() -> None:
    document = b.after(b.idle(), b.prompt("p1"), b.events(b.ended(1, "p1")), minutes=30)
    assert due(document, 39.9) is None
    assert due(document, 40) is not None


def test_the_same_idle_session_is_closed_under_the_same_key() -> None:
    first, second = due(b.idle(), 20), due(b.idle(), 25)
    assert first is not None
    assert second is not None
    assert (first.key_digest, first.request_digest) == (second.key_digest, second.request_digest)
    later = timedelta(minutes=5)
    assert first.idle_before is not None
    assert second.idle_before is not None
    assert parse_time(second.idle_before) - parse_time(first.idle_before) == later
