"""What makes two requests the same, and what is refused before it is sent."""

from __future__ import annotations

from datetime import timedelta

import pytest

from muster.client import requests
from muster.client.durations import age, parse_duration
from muster.domain.canonical import sha256_hex
from muster.domain.changes import AcceptPrompt
from muster.domain.contract import parse_time
from muster.domain.contracts import SessionRef
from muster.domain.creation import CreateSpec
from muster.domain.errors import InvalidInput, LimitExceeded
from muster.domain.session_document import PromptOperation
from muster.domain.turn_model import INLINE_CONTENT_BYTES
from muster.stores.documents.content import CONTENT_LIMIT

REF = SessionRef(namespace_id="default", session_id="s-1", incarnation="inc-1")


def _prompt(session: str, key: str, text: str, *, follow_up: bool = False) -> AcceptPrompt:
    operation: PromptOperation = "turn.follow_up" if follow_up else "turn.prompt"
    content = requests.prompt_content(text)
    return requests.prompt_command("default", session, key, content, operation, "test")


def test_one_key_serves_a_creation_a_prompt_and_an_answer_apart() -> None:
    digests = {
        requests.create_command("default", "k", CreateSpec(cwd="/")).key_digest,
        _prompt("s-1", "k", "hi").key_digest,
        requests.answer_command("default", "s-1", "k", "q-1", "allow", "").key_digest,
        requests.stop_command("default", "s-1", "k", keep_queue=False, turn=None).key_digest,
        requests.close_command(REF, "k", force=False, keep_history=False, idle_for=None).key_digest,
    }
    assert len(digests) == 5


def test_a_key_is_filed_for_its_session_alone() -> None:
    one = _prompt("s-1", "k", "hi")
    other = _prompt("s-2", "k", "hi")
    assert one.key_digest != other.key_digest


def test_another_text_or_another_verb_makes_another_prompt() -> None:
    first = _prompt("s-1", "k", "hi")
    text = _prompt("s-1", "k", "ho")
    verb = _prompt("s-1", "k", "hi", follow_up=True)
    assert first.request_digest == _prompt("s-1", "other", "hi").request_digest
    assert len({first.request_digest, text.request_digest, verb.request_digest}) == 3


def test_a_stop_and_a_cancel_under_one_key_are_different_requests() -> None:
    stop = requests.stop_command("default", "s-1", "k", keep_queue=False, turn="turn-1")
    cancel = requests.cancel_command("default", "s-1", "k", "turn-1")
    assert stop.key_digest == cancel.key_digest
    assert stop.request_digest != cancel.request_digest


def test_a_close_without_a_key_is_the_one_of_its_incarnation() -> None:
    def close(ref: SessionRef) -> str:
        command = requests.close_command(ref, None, force=False, keep_history=False, idle_for=None)
        return command.key_digest

    assert close(REF) == close(REF)
    assert close(REF) != close(REF.model_copy(update={"incarnation": "inc-2"}))


def test_an_idle_limit_becomes_the_moment_before_which_it_was_active() -> None:
    first = requests.close_command(
        REF, None, force=False, keep_history=False, idle_for=timedelta(hours=2)
    )
    later = requests.close_command(
        REF, None, force=False, keep_history=False, idle_for=timedelta(hours=1)
    )
    assert first.idle_before is not None
    assert later.idle_before is not None
    between = parse_time(later.idle_before) - parse_time(first.idle_before)
    assert abs(between - timedelta(hours=1)) < timedelta(minutes=1)
    assert first.request_digest == later.request_digest


@pytest.mark.parametrize("text", ["", "  \n\t"])
def test_an_empty_prompt_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput):
        requests.prompt_content(text)


def test_half_a_surrogate_pair_is_refused() -> None:
    with pytest.raises(InvalidInput):
        requests.prompt_content("a\ud800b")


def test_a_long_prompt_travels_as_its_beginning_with_the_digest_of_the_whole() -> None:
    short, long = "ü" * (INLINE_CONTENT_BYTES // 2), "ü" * (INLINE_CONTENT_BYTES // 2 + 1)
    whole, beginning = requests.prompt_content(short), requests.prompt_content(long)
    assert (whole.text, whole.truncated) == (short, False)
    assert long.startswith(beginning.text)
    assert beginning.truncated
    assert beginning.length == len(long.encode())
    assert beginning.sha256 == sha256_hex(long)


def test_a_prompt_past_the_limit_of_content_is_refused() -> None:
    with pytest.raises(LimitExceeded) as raised:
        requests.prompt_content("x" * (CONTENT_LIMIT + 1))
    assert raised.value.details == {"bytes": CONTENT_LIMIT + 1, "limit": CONTENT_LIMIT}


@pytest.mark.parametrize("key", ["", "k" * 513])
def test_a_key_without_or_with_too_many_characters_is_refused(key: str) -> None:
    with pytest.raises(InvalidInput):
        _prompt("s-1", key, "hi")


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("30", 30), ("45s", 45), ("10m", 600), ("2h", 7200), ("1d", 86400), ("1h30m", 5400)],
)
def test_durations_are_read_as_people_write_them(text: str, seconds: int) -> None:
    assert parse_duration(text) == timedelta(seconds=seconds)


@pytest.mark.parametrize("text", ["", "soon", "-1", "0", "5w", "1h 30m", "9" * 30 + "d"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput):
        parse_duration(text)


def test_an_age_is_told_in_its_largest_unit() -> None:
    now = parse_time("2026-01-02T00:00:00Z")
    assert age("2026-01-01T23:59:30Z", now) == "30s"
    assert age("2026-01-01T20:30:00Z", now) == "3h"
    assert age("2026-01-05T00:00:00Z", now) == "0s"
