"""Gates that the runtime opens and closes, and the questions they become.

A gate is recorded once under its authority; what is seen of it later changes the outcome, never
the first observation.
"""

from __future__ import annotations

from muster.domain.canonical import canonical_digest, canonical_json, sha256_hex
from muster.domain.contract import is_time
from muster.domain.draft import Draft
from muster.domain.gate_model import (
    AnswerRequest,
    DeferredLink,
    GateAuthority,
    GateCodec,
    GateKey,
    LinkedGate,
    MalformedGate,
    MalformedObservation,
    Question,
    QuestionHistory,
    QuestionStatus,
    SafeReceipt,
    UnlinkedGate,
    UnownedGate,
    ValidObservation,
)
from muster.domain.identifiers import authority_id, is_safe_id, question_id
from muster.domain.runtime import GateClosed, GateOpened, RejectedEvent
from muster.domain.session_document import SessionState
from muster.domain.turn_model import ACTIVE_TURN, Provenance, Turn, TurnStatus

MALFORMED_LIMIT = 64
"""How many unreadable observations one document keeps; more would let a broken runtime fill it."""


def observe_gate(draft: Draft, event: GateOpened, *, may_wait: bool = True) -> bool:
    """Record a gate the first time it is seen and ask its question if its turn runs.

    Returns False if the gate has to be read again: its turn isn't known yet, and one is on its way
    to the runtime that may turn out to be it. Without `may_wait` such a gate is uncertain.
    """
    unreadable = _unreadable(event)
    if unreadable is not None:
        observe_malformed(draft, unreadable)
        return True
    identifier = _authority_of(draft, event.gate_id)
    known = draft.gates.get(identifier)
    if known is not None and not isinstance(known.outcome, DeferredLink):
        return True
    turn = _turn_of(draft, event)
    if known is None or turn is not None:
        _record_gate(draft, identifier, event, turn)
    if turn is not None:
        _link_gate(draft, identifier, turn, event)
        return True
    active = draft.active_turn
    if may_wait and active is not None and active.status == TurnStatus.DELIVERING:
        return False
    _set_outcome(draft, identifier, UnlinkedGate(state="uncertain", reason="unknown_turn"))
    return True


def _unreadable(event: GateOpened) -> RejectedEvent | None:
    """What is wrong with a gate that the runtime's own words don't describe."""
    found: MalformedGate
    if not event.runtime_turn_id:
        found = "missing_runtime_turn"
    elif not is_safe_id(event.runtime_turn_id):
        found = "invalid_runtime_turn"
    elif not (is_safe_id(event.gate_id) and event.stage and event.kind and is_time(event.at)):
        found = "invalid_gate_row"
    else:
        return None
    digest = canonical_digest(event.model_dump(mode="json"))
    return RejectedEvent(seq=event.seq, digest=digest, malformed=found, reason=found)


def _record_gate(draft: Draft, identifier: str, event: GateOpened, turn: Turn | None) -> None:
    provenance = Provenance(
        namespace_id=draft.base.namespace_id,
        session_id=draft.base.session_id,
        endpoint_incarnation=draft.incarnation,
        coordinator_turn_id=turn.turn_id if turn else "",
        runtime_turn_id=event.runtime_turn_id,
        gate_created_at=event.at,
        schema_hash=canonical_digest([option.kind for option in event.options]),
        stage=event.stage,
        kind=event.kind,
    )
    known = draft.gates.get(identifier)
    draft.gates[identifier] = GateAuthority(
        authority=_gate_key(draft, event.gate_id),
        observation=ValidObservation(first_provenance=provenance),
        outcome=DeferredLink(first_seen_at=draft.at),
        first_seen_at=known.first_seen_at if known else draft.at,
        updated_at=draft.at,
    )


def _link_gate(draft: Draft, identifier: str, turn: Turn, event: GateOpened) -> None:
    runtime_turn = turn.delivery.runtime_turn_id
    if runtime_turn is not None and runtime_turn != event.runtime_turn_id:
        conflict = UnownedGate(state="ownership_conflict", reason="ownership_conflict")
        _set_outcome(draft, identifier, conflict)
    elif turn.status not in ACTIVE_TURN:
        ended = UnlinkedGate(state="stale", reason="turn_ended", turn_id=turn.turn_id)
        _set_outcome(draft, identifier, ended)
    else:
        _ask(draft, identifier, turn, event)


def _ask(draft: Draft, authority: str, turn: Turn, event: GateOpened) -> None:
    identifier = question_id(authority)
    binding = canonical_json(
        {
            "gate_id": event.gate_id,
            "options": [option.model_dump() for option in event.options],
            "prompt": event.prompt,
            "runtime_turn_id": event.runtime_turn_id,
        }
    )
    draft.questions[identifier] = Question(
        question_id=identifier,
        authority_id=authority,
        session_id=draft.base.session_id,
        turn_id=turn.turn_id,
        endpoint_incarnation=draft.incarnation,
        stage=event.stage,
        kind=event.kind,
        prompt=event.prompt,
        status="pending",
        binding_plaintext=binding,
        binding_sha256=sha256_hex(binding),
        codec=GateCodec(options=event.options),
        created_at=draft.at,
        updated_at=draft.at,
        history=(QuestionHistory(at=draft.at, status="pending"),),
    )
    _set_outcome(
        draft,
        authority,
        LinkedGate(state="pending", turn_id=turn.turn_id, question_id=identifier),
    )
    observation = draft.gates[authority].observation
    first = observation.first_provenance if isinstance(observation, ValidObservation) else None
    draft.update_turn(
        turn,
        status=TurnStatus.WAITING_FOR_ANSWER,
        question_ids=(*turn.question_ids, identifier),
        runtime_provenance=turn.runtime_provenance or first,
    )
    draft.state = SessionState.NEEDS_USER_INPUT
    draft.emit(
        "question.opened", "question", identifier, turn_id=turn.turn_id, gate_kind=event.kind
    )


def observe_malformed(draft: Draft, event: RejectedEvent) -> None:
    """Keep an event that can't be trusted or read, by its digest; it is never applied."""
    identifier = f"gate-{event.digest[:40]}"
    kept = sum(isinstance(each.observation, MalformedObservation) for each in draft.gates.values())
    if identifier in draft.gates or kept >= MALFORMED_LIMIT:
        return
    foreign = event.malformed == "wrong_session"
    state = "ownership_conflict" if foreign else "ownership_unavailable"
    draft.gates[identifier] = GateAuthority(
        authority=_gate_key(draft, identifier),
        observation=MalformedObservation(
            immutable_observation_digest=event.digest, malformed=event.malformed
        ),
        outcome=UnownedGate.model_validate({"state": state, "reason": state}),
        first_seen_at=draft.at,
        updated_at=draft.at,
    )


def close_gate(draft: Draft, event: GateClosed) -> None:
    """Settle a gate as the runtime says it ended, with or without an answer of ours."""
    authority = draft.gates.get(_authority_of(draft, event.gate_id))
    if authority is None:
        return
    if not isinstance(authority.outcome, LinkedGate):
        if isinstance(authority.outcome, DeferredLink):
            _set_outcome(
                draft,
                _authority_of(draft, event.gate_id),
                UnlinkedGate(state="stale", reason=event.outcome),
            )
        return
    question = draft.questions[authority.outcome.question_id]
    if question.status not in ("pending", "resolving"):
        return
    claim = claim_of(draft, question)
    if claim is not None:
        # A claim without an option asked for the gate's cancellation.
        asked = "answered" if claim.option_id else "cancelled"
        ours = (event.outcome, event.option_id) == (asked, claim.option_id)
        seal_answer(draft, claim, accepted=ours)
        question = draft.questions[question.question_id]
    if question.status != "answered":
        if event.outcome == "answered":
            mark_answered(draft, question, reason="answered_elsewhere", option_id=event.option_id)
        else:
            mark_stale(draft, question, "cancelled")


def claim_of(draft: Draft, question: Question) -> AnswerRequest | None:
    """The answer request that holds the question, if it isn't settled."""
    for request in draft.answers.values():
        held = request.request_id == question.answer_request_id
        if held and request.question_id == question.question_id and request.safe_receipt is None:
            return request
    return None


def seal_answer(draft: Draft, request: AnswerRequest, *, accepted: bool) -> None:
    """Give an answer request its receipt and the question what follows from it."""
    draft.answers[request.key_digest] = request.model_copy(
        update={
            "safe_receipt": SafeReceipt(
                status="accepted" if accepted else "rejected",
                answer_hash=request.answer_hash,
                answer_binding_sha256=request.answer_binding_sha256,
                authority_id=request.authority_id,
                turn_id=request.turn_id,
                endpoint_incarnation=request.endpoint_incarnation,
                claim_fence_epoch=request.claim_fence_epoch,
                resolved_at=draft.at,
            ),
            "updated_at": draft.at,
        }
    )
    question = draft.questions[request.question_id]
    if accepted:
        mark_answered(draft, question, reason=None, option_id=request.option_id)
    elif question.status == "resolving":
        _set_question(
            draft, question, "pending", "rejected", claim_fence_epoch=None, answer_request_id=None
        )


def mark_answered(
    draft: Draft, question: Question, *, reason: str | None, option_id: str | None
) -> None:
    """The question has its answer; its turn goes on."""
    _set_question(
        draft,
        question,
        "answered",
        reason,
        answered_at=draft.at,
        answered_option_id=option_id,
    )
    _set_outcome(
        draft,
        question.authority_id,
        LinkedGate(state="answered", turn_id=question.turn_id, question_id=question.question_id),
    )
    draft.emit(
        "question.answered",
        "question",
        question.question_id,
        turn_id=question.turn_id,
        option_id=option_id,
    )
    resume_turn(draft, question.turn_id)


def mark_stale(draft: Draft, question: Question, reason: str) -> None:
    """The question ended without an answer."""
    _set_question(draft, question, "stale", reason, claim_fence_epoch=None, answer_request_id=None)
    _set_outcome(
        draft,
        question.authority_id,
        UnlinkedGate(
            state="stale",
            reason=reason,
            turn_id=question.turn_id,
            question_id=question.question_id,
        ),
    )
    draft.emit(
        "question.cancelled",
        "question",
        question.question_id,
        turn_id=question.turn_id,
        reason=reason,
    )
    resume_turn(draft, question.turn_id)


def resume_turn(draft: Draft, turn_id: str) -> None:
    """A turn goes on once none of its questions is open."""
    turn = draft.turns[turn_id]
    if turn.status != TurnStatus.WAITING_FOR_ANSWER:
        return
    if any(each.status in ("pending", "resolving") for each in _questions_of(draft, turn_id)):
        return
    draft.update_turn(turn, status=TurnStatus.ACTIVE)
    draft.state = SessionState.RUNNING


def cancel_open_questions(draft: Draft, turn: Turn, reason: str) -> None:
    """Settle what a turn leaves open: unclaimed questions and claims that nobody confirmed."""
    for found in _questions_of(draft, turn.turn_id):
        claim = claim_of(draft, found)
        if claim is not None:
            seal_answer(draft, claim, accepted=False)
        question = draft.questions[found.question_id]
        if question.status in ("pending", "resolving"):
            mark_stale(draft, question, reason)


def _questions_of(draft: Draft, turn_id: str) -> list[Question]:
    return [each for each in draft.questions.values() if each.turn_id == turn_id]


def _authority_of(draft: Draft, gate_id: str) -> str:
    return authority_id(draft.base.namespace_id, draft.base.session_id, draft.incarnation, gate_id)


def _gate_key(draft: Draft, gate_id: str) -> GateKey:
    return GateKey(
        namespace_id=draft.base.namespace_id,
        session_id=draft.base.session_id,
        endpoint_incarnation=draft.incarnation,
        gate_id=gate_id,
    )


def _turn_of(draft: Draft, event: GateOpened) -> Turn | None:
    for turn in draft.turns.values():
        if turn.delivery.runtime_turn_id == event.runtime_turn_id:
            return turn
    return draft.turns.get(event.turn_id)


def _set_outcome(
    draft: Draft,
    identifier: str,
    outcome: LinkedGate | UnlinkedGate | UnownedGate,
) -> None:
    draft.gates[identifier] = draft.gates[identifier].model_copy(
        update={"outcome": outcome, "updated_at": draft.at}
    )


def _set_question(
    draft: Draft, question: Question, status: QuestionStatus, reason: str | None, **changes: object
) -> None:
    entry = QuestionHistory(at=draft.at, status=status, reason=reason)
    draft.questions[question.question_id] = question.model_copy(
        update={
            "status": status,
            "updated_at": draft.at,
            "history": (*question.history, entry),
            **changes,
        }
    )
