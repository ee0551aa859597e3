"""Answers: claimed once, told to the runtime once, and what a second one hears."""

from __future__ import annotations

from muster.domain.canonical import sha256_hex
from muster.domain.changes import AnswerClaimed, Applied, ClaimAnswer, SettleAnswer
from muster.domain.draft import Draft
from muster.domain.errors import (
    AlreadyAnswered,
    InvalidInput,
    QuestionCancelled,
    ResourceGone,
    TerminalUncertain,
)
from muster.domain.gate_model import AnswerRequest, GateAuthority, Question
from muster.domain.session_document import SessionDocument
from muster.domain.transitions.admission import require_open, require_same_request
from muster.domain.transitions.gates import seal_answer


def claim_answer(draft: Draft, change: ClaimAnswer) -> AnswerClaimed:
    """Take the question for this answer; the runtime is told next.

    Raises:
        IdempotencyConflict: The key was used for another answer.
        ResourceGone: There is no such question.
        AlreadyAnswered: Another answer won, or is on its way to the runtime.
        QuestionCancelled: The question ended without an answer.
        TerminalUncertain: Nobody knows whether an earlier answer was taken.
        InvalidInput: The question has no such option.
        SessionClosing: A close is admitted.
    """
    known = draft.answers.get(change.key_digest)
    if known is not None:
        fields = _differing_fields(known, change)
        require_same_request("answer", known.request_digest, change.request_digest, fields)
        return answer_outcome(draft.gates, known, repeated=True)
    question = draft.questions.get(change.question_id)
    if question is None:
        raise ResourceGone(
            f"session {draft.base.session_id} has no question {change.question_id}; "
            "`muster session questions` lists the open ones"
        )
    _require_pending(draft, question)
    require_open(draft)
    _require_option(question, change.option_id)
    return _claim(draft, change, question)


def _claim(draft: Draft, change: ClaimAnswer, question: Question) -> AnswerClaimed:
    earlier = [
        each.claim_fence_epoch
        for each in draft.answers.values()
        if each.question_id == question.question_id
    ]
    epoch = 1 + max(earlier, default=0)
    request = AnswerRequest(
        request_id=f"answer-{change.key_digest[:32]}",
        key_digest=change.key_digest,
        request_digest=change.request_digest,
        answer_hash=sha256_hex(change.option_id or ""),
        answer_binding_sha256=question.binding_sha256,
        authority_id=question.authority_id,
        question_id=question.question_id,
        turn_id=question.turn_id,
        endpoint_incarnation=question.endpoint_incarnation,
        sdk_idempotency_key=f"answer_{change.key_digest}",
        option_id=change.option_id,
        claim_fence_epoch=epoch,
        created_at=draft.at,
        updated_at=draft.at,
    )
    draft.answers[change.key_digest] = request
    draft.questions[question.question_id] = question.model_copy(
        update={
            "status": "resolving",
            "claim_fence_epoch": epoch,
            "answer_request_id": request.request_id,
            "updated_at": draft.at,
        }
    )
    draft.update_recovery(prompt_watermark_at=draft.at)
    return answer_outcome(draft.gates, request, repeated=False)


def claims_under_way(document: SessionDocument) -> tuple[AnswerClaimed, ...]:
    """The answers that are claimed and that the runtime hasn't confirmed."""
    return tuple(
        answer_outcome(document.canonical.gate_authorities, request, repeated=True)
        for request in document.requests.answers.values()
        if request.safe_receipt is None
    )


def answer_outcome(
    gates: dict[str, GateAuthority], request: AnswerRequest, *, repeated: bool
) -> AnswerClaimed:
    """What an answer's key is answered: the claim, or how it was settled."""
    gate = gates[request.authority_id].authority.gate_id
    receipt = request.safe_receipt
    return AnswerClaimed(
        request_id=request.request_id,
        key_digest=request.key_digest,
        question_id=request.question_id,
        turn_id=request.turn_id,
        gate_id=gate,
        option_id=request.option_id,
        sdk_idempotency_key=request.sdk_idempotency_key,
        status=receipt.status if receipt else "claimed",
        repeated=repeated,
    )


def _require_pending(draft: Draft, question: Question) -> None:
    if question.status == "pending":
        return
    won = _winner(draft, question)
    if question.status in ("answered", "resolving"):
        state = "was answered" if question.status == "answered" else "is being answered"
        option_id = won.option_id if won else question.answered_option_id
        chosen = f" with {option_id}" if option_id else ""
        raise AlreadyAnswered(
            f"question {question.question_id} {state}{chosen}; nothing was changed",
            question_id=question.question_id,
            option_id=option_id,
            request_id=won.request_id if won else None,
            answered_at=question.answered_at,
        )
    reason = question.history[-1].reason if question.history else None
    if question.status == "stale":
        raise QuestionCancelled(
            f"question {question.question_id} ended without an answer ({reason})",
            question_id=question.question_id,
            reason=reason,
        )
    raise TerminalUncertain(
        f"nobody knows whether an answer to question {question.question_id} was taken ({reason})",
        question_id=question.question_id,
    )


def _winner(draft: Draft, question: Question) -> AnswerRequest | None:
    for request in draft.answers.values():
        if request.request_id == question.answer_request_id:
            return request
    return None


def _require_option(question: Question, option_id: str | None) -> None:
    offered = [option.option_id for option in question.codec.options]
    if option_id is not None and option_id not in offered:
        raise InvalidInput(
            f"question {question.question_id} has no option {option_id!r}; "
            f"choose one of {', '.join(offered)}",
            options=offered,
        )


def _differing_fields(known: AnswerRequest, change: ClaimAnswer) -> list[str]:
    pairs = {"question_id": change.question_id, "option_id": change.option_id}
    return [name for name, value in pairs.items() if getattr(known, name) != value]


def settle_answer(draft: Draft, change: SettleAnswer) -> Applied:
    """File the runtime's word on an answer; what the log already settled stays."""
    request = draft.answers.get(change.key_digest)
    # What the end of its turn has settled may be in the archive already.
    if request is not None and request.safe_receipt is None:
        seal_answer(draft, request, accepted=change.receipt.status == "accepted")
    return Applied()
