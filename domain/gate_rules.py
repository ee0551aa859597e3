"""Rules over gates, questions and answers."""

from __future__ import annotations

from collections.abc import Iterator

from muster.domain.canonical import sha256_hex
from muster.domain.gate_model import (
    AnswerRequest,
    DeferredLink,
    LinkedGate,
    ValidObservation,
)
from muster.domain.identifiers import is_safe_id
from muster.domain.rule_registry import repeated, rule
from muster.domain.session_document import SessionDocument


@rule("gate.key")
def _gate_key(document: SessionDocument) -> Iterator[tuple[str, str]]:
    for key in document.canonical.gate_authorities:
        if not is_safe_id(key):
            yield f"canonical.gate_authorities.{key}", "isn't filed under a safe id"


@rule("gate.identity")
def _gate_identity(document: SessionDocument) -> Iterator[tuple[str, str]]:
    for key, gate in document.canonical.gate_authorities.items():
        owner = (gate.authority.namespace_id, gate.authority.session_id)
        if owner != (document.namespace_id, document.session_id):
            yield f"canonical.gate_authorities.{key}.authority", "is of another session"


@rule("gate.deferred_unlinked")
def _gate_deferred(document: SessionDocument) -> Iterator[tuple[str, str]]:
    for key, gate in document.canonical.gate_authorities.items():
        if not isinstance(gate.outcome, DeferredLink):
            continue
        seen = gate.observation
        if isinstance(seen, ValidObservation) and seen.first_provenance.coordinator_turn_id != "":
            yield f"canonical.gate_authorities.{key}", "waits for its turn and yet names one"


@rule("gate.provenance")
def _gate_provenance(document: SessionDocument) -> Iterator[tuple[str, str]]:
    for key, gate in document.canonical.gate_authorities.items():
        if not isinstance(gate.observation, ValidObservation):
            continue
        found = gate.observation.first_provenance
        where = f"canonical.gate_authorities.{key}.observation"
        if (found.namespace_id, found.session_id) != (document.namespace_id, document.session_id):
            yield where, "was observed for another session"
        elif (
            isinstance(gate.outcome, LinkedGate)
            and found.coordinator_turn_id != gate.outcome.turn_id
        ):
            yield where, "was observed for another turn than it is linked to"


@rule("gate.question")
def _gate_question(document: SessionDocument) -> Iterator[tuple[str, str]]:
    for key, gate in document.canonical.gate_authorities.items():
        outcome = gate.outcome
        if not isinstance(outcome, LinkedGate):
            continue
        question = document.canonical.questions.get(outcome.question_id)
        linked = (
            outcome.turn_id in document.canonical.turns
            and question is not None
            and question.authority_id == key
            and question.turn_id == outcome.turn_id
        )
        if not linked:
            yield (
                f"canonical.gate_authorities.{key}.outcome",
                f"is {outcome.state} without its question and turn",
            )


@rule("question.key")
def _question_key(document: SessionDocument) -> Iterator[tuple[str, str]]:
    for key, question in document.canonical.questions.items():
        if key != question.question_id:
            yield f"canonical.questions.{key}", "is filed under another id than its own"


@rule("question.session")
def _question_session(document: SessionDocument) -> Iterator[tuple[str, str]]:
    for key, question in document.canonical.questions.items():
        if question.session_id != document.session_id:
            yield f"canonical.questions.{key}.session_id", "is of another session"


@rule("question.authority")
def _question_authority(document: SessionDocument) -> Iterator[tuple[str, str]]:
    for key, question in document.canonical.questions.items():
        if question.authority_id not in document.canonical.gate_authorities:
            yield f"canonical.questions.{key}.authority_id", "names a gate that isn't there"


@rule("question.turn")
def _question_turn(document: SessionDocument) -> Iterator[tuple[str, str]]:
    for key, question in document.canonical.questions.items():
        if question.turn_id not in document.canonical.turns:
            yield f"canonical.questions.{key}.turn_id", "names a turn that isn't there"


@rule("question.incarnation")
def _question_incarnation(document: SessionDocument) -> Iterator[tuple[str, str]]:
    incarnation = document.canonical.session.broker.endpoint_incarnation
    for key, question in document.canonical.questions.items():
        if question.endpoint_incarnation != incarnation:
            yield f"canonical.questions.{key}.endpoint_incarnation", "is of another incarnation"


@rule("question.binding")
def _question_binding(document: SessionDocument) -> Iterator[tuple[str, str]]:
    for key, question in document.canonical.questions.items():
        if question.binding_sha256 != sha256_hex(question.binding_plaintext):
            yield f"canonical.questions.{key}.binding_sha256", "isn't the digest of its plaintext"


@rule("question.pending_unclaimed")
def _question_pending(document: SessionDocument) -> Iterator[tuple[str, str]]:
    for key, question in document.canonical.questions.items():
        claimed = question.claim_fence_epoch is not None or question.answer_request_id is not None
        if question.status == "pending" and claimed:
            yield f"canonical.questions.{key}", "is pending and yet claimed"


@rule("question.claim")
def _question_claim(document: SessionDocument) -> Iterator[tuple[str, str]]:
    request_ids = {each.request_id for each in document.requests.answers.values()}
    for key, question in document.canonical.questions.items():
        if question.status != "resolving":
            continue
        if question.claim_fence_epoch is None or question.answer_request_id not in request_ids:
            yield f"canonical.questions.{key}", "is being answered without its answer request"


@rule("question.answered_at")
def _question_answered(document: SessionDocument) -> Iterator[tuple[str, str]]:
    for key, question in document.canonical.questions.items():
        if question.status == "answered" and question.answered_at is None:
            yield f"canonical.questions.{key}.answered_at", "is missing for an answered question"


@rule("answer.key")
def _answer_key(document: SessionDocument) -> Iterator[tuple[str, str]]:
    for key, request in document.requests.answers.items():
        if key != request.key_digest:
            yield f"requests.answers.{key}", "is filed under another key digest than its own"


@rule("answer.question")
def _answer_question(document: SessionDocument) -> Iterator[tuple[str, str]]:
    for key, request in document.requests.answers.items():
        question = document.canonical.questions.get(request.question_id)
        linked = question is not None and (
            question.authority_id,
            question.turn_id,
            question.endpoint_incarnation,
        ) == (request.authority_id, request.turn_id, request.endpoint_incarnation)
        if not linked:
            yield f"requests.answers.{key}", "answers a question that isn't there as it says"


def is_rejected(request: AnswerRequest) -> bool:
    """True for the evidence of an attempt that the runtime refused: it needs no active link."""
    return request.safe_receipt is not None and request.safe_receipt.status == "rejected"


@rule("answer.link")
def _answer_link(document: SessionDocument) -> Iterator[tuple[str, str]]:
    for key, request in document.requests.answers.items():
        question = document.canonical.questions.get(request.question_id)
        if question is None or is_rejected(request):
            continue
        active = (question.answer_request_id, question.claim_fence_epoch)
        if active != (request.request_id, request.claim_fence_epoch):
            yield f"requests.answers.{key}", "isn't the question's own claim"


@rule("answer.receipt")
def _answer_receipt(document: SessionDocument) -> Iterator[tuple[str, str]]:
    for key, request in document.requests.answers.items():
        receipt = request.safe_receipt
        if receipt is None:
            continue
        for field in (
            "answer_hash",
            "answer_binding_sha256",
            "authority_id",
            "turn_id",
            "endpoint_incarnation",
            "claim_fence_epoch",
        ):
            if getattr(receipt, field) != getattr(request, field):
                yield f"requests.answers.{key}.safe_receipt.{field}", "differs from the request"


@rule("answer.request_ids_unique")
def _answer_request_ids(document: SessionDocument) -> Iterator[tuple[str, str]]:
    for found in repeated(each.request_id for each in document.requests.answers.values()):
        yield "requests.answers", f"has the request id {found} twice"
