"""What leaves a document, in which order, what stays, and that nothing is lost."""

from __future__ import annotations

import random
from functools import cache

import pytest

from muster.domain.changes import AcceptPrompt, ClaimAnswer, FileReport, RequestStop
from muster.domain.compaction import (
    EMERGENCY_BYTES,
    NORMAL_BYTES,
    Compacted,
    Limits,
    compact,
    compact_for,
    is_essential,
)
from muster.domain.errors import IdempotencyConflict, QueryUnavailable
from muster.domain.history import PARTS, SessionHistory
from muster.domain.receipts import archived_answer, filed_under, receipts_of
from muster.domain.session_document import SessionDocument, encode
from muster.domain.session_rules import check_document
from muster.domain.transitions import apply
from muster.domain.turn_model import TERMINAL_TURN
from tests.domain import builders as b
from tests.domain.lives import live

DAY = 24 * 60
SOON, LATER = b.moment(DAY), b.moment(31 * DAY)


def _cycle(
    document: SessionDocument, name: str, text: str = "done", minutes: int = 1
) -> SessionDocument:
    """One whole turn, published."""
    seq = document.recovery.runtime_cursor
    document = b.after(
        document,
        b.follow_up(name),
        b.events(b.started(seq + 1, name)),
        b.events(b.ended(seq + 2, name, text=text)),
        minutes=minutes,
    )
    return b.after(document, b.acknowledged(document))


@cache
def _worked(turns: int, text_bytes: int) -> SessionDocument:
    document = b.idle()
    for number in range(turns):
        document = _cycle(document, f"t{number}", "x" * text_bytes, number)
    return document


def _parts(document: SessionDocument) -> dict[str, dict[str, object]]:
    canonical, requests = document.canonical, document.requests
    return {
        "turns": dict(canonical.turns),
        "questions": dict(canonical.questions),
        "gate_authorities": dict(canonical.gate_authorities),
        "reports": dict(canonical.reports),
        "prompts": dict(requests.prompts),
        "answers": dict(requests.answers),
        "operations": dict(requests.operations),
        "outbox": dict(document.outbox),
    }


def _removed(compacted: Compacted) -> dict[str, int]:
    counts = {part: len(getattr(compacted.removed, part)) for part in PARTS}
    return {part: count for part, count in counts.items() if count}


def _unlimited() -> Limits:
    return Limits(normal_bytes=1, emergency_bytes=NORMAL_BYTES)


def test_a_small_young_document_stays_the_very_same() -> None:
    for build in b.VALID.values():
        document = build()
        compacted = compact(document, SOON)
        assert compacted.document is document
        assert compacted.removed.is_empty
        assert compacted.size == len(encode(document))


def test_published_events_and_finished_requests_leave_after_thirty_days() -> None:
    document = _worked(3, 10)
    assert compact(document, b.moment(30 * DAY)).removed.is_empty
    compacted = compact(document, LATER)
    assert _removed(compacted) == {"prompts": 3, "outbox": len(document.outbox)}
    assert compacted.document.canonical == document.canonical


def test_an_event_that_the_journal_doesn_t_have_never_leaves() -> None:
    document = b.done()
    compacted = compact(document, LATER, limits=_unlimited())
    assert compacted.document.outbox == document.outbox


def test_an_event_of_the_revision_being_written_stays() -> None:
    document = b.published()
    assert compact(document.model_copy(update={"revision": 1}), LATER).removed.is_empty


def test_a_request_whose_turn_still_runs_or_waits_stays_however_old() -> None:
    for document in (b.delivering(), b.queued(), b.asking(), b.resolving()):
        assert compact(document, LATER).removed.is_empty


def test_an_old_operation_leaves_unless_it_is_under_way_or_a_report_names_it() -> None:
    assert _removed(compact(b.after(b.idle(), b.stop("x1")), LATER)) == {"operations": 1}
    assert compact(b.stopping(), LATER).removed.is_empty
    assert compact(b.reported(), LATER).removed.operations == {}


def test_an_answer_stays_as_long_as_its_question() -> None:
    document = b.after(b.answered(), b.events(b.ended(3, "p1")))
    assert compact(document, LATER).removed.answers == {}


def test_over_the_limit_published_events_go_first_then_the_oldest_turns_with_all_of_theirs() -> (
    None
):
    document = _worked(40, 3000)
    size = len(encode(document))
    events_only = compact(document, SOON, limits=Limits(normal_bytes=size - 1))
    assert set(_removed(events_only)) == {"outbox"}
    compacted = compact(document, SOON, limits=Limits(normal_bytes=size // 2))
    removed = compacted.removed
    count = len(removed.turns)
    assert 0 < count < 40
    assert set(removed.turns) == {b.turn_of(f"t{number}") for number in range(count)}
    assert _removed(compacted) == {
        "turns": count,
        "prompts": count,
        "reports": count,
        "outbox": len(document.outbox),
    }


def test_a_turn_takes_its_questions_gates_answers_and_operations_with_it() -> None:
    document = b.after(
        b.corrected(), b.stop("x1"), b.events(b.ended(3, "p1")), b.report("r1", of="p1")
    )
    document = _cycle(_cycle(document, "t1"), "t2")
    limits = Limits(normal_bytes=len(encode(document)) // 3, emergency_bytes=NORMAL_BYTES)
    compacted = compact(document, LATER, limits=limits)
    removed = compacted.removed
    assert b.turn_of("p1") in removed.turns
    assert set(removed.questions) == {b.question_of("g1")}
    assert set(removed.gate_authorities) == {b.authority_of("g1")}
    assert set(removed.answers) == {b.key("w1"), b.key("w2")}
    assert {each.tool for each in removed.operations.values()} == {"session.stop", "report.file"}


def test_both_ends_of_a_promotion_stay() -> None:
    document = b.after(
        b.promoted(),
        b.events(b.ended(2, "p1", "cancelled")),
        b.failure("a1"),
        b.failure("f1"),
    )
    promotion = document.canonical.queue.selected_promotion
    assert promotion is not None
    compacted = compact(document, LATER, limits=_unlimited())
    left = compacted.document.canonical.turns
    assert {promotion.from_turn_id, promotion.to_turn_id} <= set(left)


def test_a_turn_with_an_operation_under_way_stays() -> None:
    document = _worked(3, 10)
    (waiting, *_) = document.canonical.turns
    operation = b.stopping().requests.operations.popitem()[1]
    unsealed = operation.model_copy(update={"intent": {"kind": "reap", "turn_id": waiting}})
    requests = document.requests.model_copy(
        update={"operations": {unsealed.operation_id: unsealed}}
    )
    document = document.model_copy(update={"requests": requests})
    compacted = compact(document, LATER, limits=_unlimited())
    assert waiting in compacted.document.canonical.turns
    assert compacted.document.requests.operations == requests.operations


def test_a_turn_with_an_answer_that_nobody_confirmed_stays() -> None:
    document = b.resolving()
    sealed = b.done().canonical.turns[b.turn_of("p1")]
    turn = document.canonical.turns[sealed.turn_id].model_copy(
        update={
            name: getattr(sealed, name)
            for name in ("status", "completed_at", "terminal_fence", "started_at")
        }
    )
    canonical = document.canonical.model_copy(
        update={
            "turns": {turn.turn_id: turn},
            "queue": document.canonical.queue.model_copy(update={"active_turn_id": None}),
        }
    )
    document = document.model_copy(update={"canonical": canonical})
    check_document(document)
    assert compact(document, LATER, limits=_unlimited()).removed.turns == {}


def test_turns_with_freshly_answered_operations_are_the_last_to_go() -> None:
    document = b.after(_worked(6, 2000), b.report("r1", of="t0"))
    document = b.after(document, b.acknowledged(document))
    size = len(encode(document))
    half = compact(document, SOON, limits=Limits(normal_bytes=size // 2))
    assert b.turn_of("t0") in half.document.canonical.turns
    assert b.turn_of("t1") in half.removed.turns
    tight = compact(document, SOON, limits=Limits(normal_bytes=4000))
    assert b.turn_of("t0") in tight.removed.turns


def test_stops_of_nothing_can_t_fill_a_document_for_good() -> None:
    document = b.idle()
    for number in range(40):
        document = b.after(document, b.stop(f"x{number}"), minutes=number)
    compacted = compact(document, SOON, limits=Limits(normal_bytes=len(encode(document)) // 2))
    left = list(compacted.document.requests.operations)
    assert left == list(document.requests.operations)[-len(left) :]
    assert 0 < len(left) < 40


def test_past_the_last_reserve_the_document_is_refused() -> None:
    document = b.queued()
    size = len(encode(document))
    with pytest.raises(QueryUnavailable) as refused:
        compact(document, SOON, limits=Limits(normal_bytes=size - 2, emergency_bytes=1))
    assert refused.value.details == {"size": size, "limit": size - 1}
    kept = compact(document, SOON, limits=Limits(normal_bytes=size - 1, emergency_bytes=1))
    assert kept.document is document


def test_only_essential_changes_may_use_the_reserve() -> None:
    document = b.queued()
    limits = Limits(normal_bytes=len(encode(document)) - 1)
    with pytest.raises(QueryUnavailable):
        compact_for(b.follow_up("f2"), document, SOON, limits=limits)
    for essential in (b.events(cursor=9), b.settled("w1"), b.stop("x1"), b.close()):
        assert is_essential(essential)
        assert compact_for(essential, document, SOON, limits=limits).document is document


def test_capacity_is_one_mebibyte_and_a_reserve_of_128_kibibytes_for_what_is_essential() -> None:
    assert (NORMAL_BYTES, EMERGENCY_BYTES) == (1_048_576, 131_072)
    assert Limits().normal_bytes == NORMAL_BYTES
    assert Limits().reserve_bytes == NORMAL_BYTES + EMERGENCY_BYTES


@pytest.mark.parametrize("essential", [False, True])
def test_a_document_may_have_its_limit_and_not_a_byte_more(essential: bool) -> None:
    document = b.queued()
    size = len(encode(document))
    change = b.settled("w1") if essential else b.follow_up("f2")
    reserve = 7 if essential else 0

    def limits(most: int) -> Limits:
        return Limits(normal_bytes=most - reserve, emergency_bytes=reserve)

    assert compact_for(change, document, SOON, limits=limits(size)).document is document
    with pytest.raises(QueryUnavailable):
        compact_for(change, document, SOON, limits=limits(size - 1))


def test_a_document_beyond_a_mebibyte_ends_well_below_it() -> None:
    document = _worked(80, 15_000)
    assert len(encode(document)) > NORMAL_BYTES
    compacted = compact(document, SOON)
    assert compacted.size == len(encode(compacted.document)) <= NORMAL_BYTES * 3 // 4
    check_document(compacted.document)


def _all_gone(document: SessionDocument) -> Compacted:
    return compact(document, LATER, limits=_unlimited())


def test_after_years_a_key_hears_its_first_answer_and_another_request_what_differs() -> None:
    document = b.after(b.corrected(), b.stop("x1"), b.events(b.ended(3, "p1")))
    document = _cycle(_cycle(document, "t1"), "t2")
    compacted = _all_gone(document)
    receipts = receipts_of(compacted.removed)
    commands: list[tuple[AcceptPrompt | ClaimAnswer | RequestStop, object, list[str]]] = [
        (b.prompt("p1"), b.prompt("p1", "else"), ["text"]),
        (b.answer("w1", "g1"), b.answer("w1", "g1", "reject"), ["option_id"]),
        (b.stop("x1"), b.stop("x1", keep_queue=True), []),
    ]
    for command, other, fields in commands:
        _, before = apply(document, command, SOON)
        receipt = receipts[str(filed_under(command))]
        assert archived_answer(receipt, command) == before
        assert type(receipt).model_validate_json(receipt.model_dump_json()) == receipt
        with pytest.raises(IdempotencyConflict) as refused:
            archived_answer(receipt, other)  # type: ignore[arg-type]
        assert refused.value.details["fields"] == fields
    assert filed_under(b.events(cursor=1)) is None


@pytest.mark.parametrize("batch", range(4))
def test_compaction_of_any_life_loses_nothing_and_leaves_a_valid_document(batch: int) -> None:
    for seed in range(batch * 50, (batch + 1) * 50):
        life, rng = live(seed), random.Random(seed)
        document = life.document
        size = len(encode(document))
        limits = Limits(
            normal_bytes=int(size * rng.uniform(0.1, 1.1)),
            emergency_bytes=int(size * rng.choice([0.1, 1.0])),
        )
        now = rng.choice([SOON, LATER])
        try:
            compacted = compact(document, now, limits=limits)
        except QueryUnavailable:
            # What is left then can't leave: nothing here that ended freely may still be in.
            continue
        _check_compacted(document, compacted, limits)
        again = compact(compacted.document, now, limits=limits)
        assert again.document is compacted.document, seed
        for change in life.sent:
            if isinstance(change, AcceptPrompt | ClaimAnswer | RequestStop | FileReport):
                _check_answerable(document, compacted, change)


def _check_compacted(before: SessionDocument, compacted: Compacted, limits: Limits) -> None:
    after, removed = compacted.document, compacted.removed
    check_document(after)
    assert compacted.size == len(encode(after))
    assert compacted.size <= limits.reserve_bytes
    assert SessionHistory.model_validate_json(removed.model_dump_json(), strict=True) == removed
    kept = _parts(after)
    for part, entries in _parts(before).items():
        gone = getattr(removed, part)
        assert not gone.keys() & kept[part].keys()
        assert {**gone, **kept[part]} == entries
    assert all(each.public_delivery.journal_seq for each in removed.outbox.values())
    assert all(each.status in TERMINAL_TURN for each in removed.turns.values())
    assert all(each.safe_response for each in removed.operations.values())
    assert after.revision == before.revision
    assert after.canonical.queue == before.canonical.queue
    assert after.canonical.session == before.canonical.session


def _check_answerable(
    before: SessionDocument,
    compacted: Compacted,
    change: AcceptPrompt | ClaimAnswer | RequestStop | FileReport,
) -> None:
    receipt = receipts_of(compacted.removed).get(str(filed_under(change)))
    if receipt is None or receipt.request_digest != change.request_digest:
        return
    _, heard = apply(before, change, SOON)
    assert archived_answer(receipt, change) == heard
