"""Identifiers: what fits, and what follows from a key the same way each time."""

from __future__ import annotations

import re

import pytest

from muster.domain import identifiers as i
from muster.domain.errors import InvalidInput


def test_a_public_event_s_id_says_what_it_is_of_until_that_is_too_long() -> None:
    short = i.outbox_id("s-1", 3, "turn.queued", "turn", "turn-1", "inc-1")
    assert short == "txn:s-1:3:turn.queued:turn:turn-1:inc:inc-1"
    assert i.outbox_id("s-1", 3, "k", "session", "s-1", None) == "txn:s-1:3:k:session:s-1"
    frame = len(i.outbox_id("s-1", 3, "k", "turn", "", None))
    longest = i.outbox_id("s-1", 3, "k", "turn", "x" * (512 - frame), None)
    assert len(longest) == 512
    hashed = i.outbox_id("s-1", 3, "k", "turn", "x" * (513 - frame), None)
    assert re.fullmatch("txn:[a-f0-9]{64}", hashed)
    assert re.fullmatch(i.PUBLIC_EVENT_ID_PATTERN, hashed)


@pytest.mark.parametrize("good", ["a", "0", "fleet-1_x", "a" * 63])
def test_a_namespace_is_short_lower_case_and_starts_with_a_letter_or_digit(good: str) -> None:
    assert i.check_namespace(good) == good


@pytest.mark.parametrize("bad", ["", "A", "-a", "a.b", "a/b", "a" * 64, "a\n"])
def test_what_is_no_namespace_is_refused(bad: str) -> None:
    with pytest.raises(InvalidInput):
        i.check_namespace(bad)


@pytest.mark.parametrize("good", ["s", "S.1_-", "a" * 128])
def test_a_session_id_may_have_dots_and_capitals(good: str) -> None:
    assert i.check_session_id(good) == good


@pytest.mark.parametrize("bad", ["", ".", "..", "../s", "a b", "a:b", "a" * 129, "a\n"])
def test_what_is_no_session_id_is_refused(bad: str) -> None:
    with pytest.raises(InvalidInput):
        i.check_session_id(bad)


def test_one_key_in_two_scopes_is_two_keys() -> None:
    assert i.key_digest("prompt", "k") != i.key_digest("answer", "k")
    assert i.key_digest("prompt", "k") == i.key_digest("prompt", "k")


def test_what_is_derived_fits_its_pattern() -> None:
    digest = i.key_digest("prompt", "k")
    assert i.is_safe_id(i.turn_id(digest))
    assert i.is_safe_id(i.question_id("gate-1"))
    assert i.is_safe_id(i.authority_id("n", "s", "i", "any text: g"))
    assert i.is_safe_id(i.deletion_id("s", "i"))
    assert re.fullmatch(i.REPORT_ID_PATTERN, i.report_id("op"))
    assert i.check_session_id(i.default_session_id(digest))
