"""The readers' files of a session, and what can be rebuilt from them.

Each file holds whole records of the document, so that together they are a second copy of it as of
the revision they name: a reader needs nothing else, and a lost document can be put together again.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from muster.domain.contract import Contract
from muster.domain.gate_model import AnswerRequest, GateAuthority, Question
from muster.domain.identifiers import Digest, NamespaceId, SessionId
from muster.domain.session_document import (
    Canonical,
    Closing,
    ObservedEndpoint,
    OperationRequest,
    OutboxEvent,
    PromptRequest,
    Queue,
    Recovery,
    Report,
    Requests,
    SessionDocument,
    SessionPolicy,
    SessionSnapshot,
    SessionState,
)
from muster.domain.turn_model import ACTIVE_TURN, Turn


class SessionProjection(Contract):
    """`projection/session.json`: the session less its turns and reports."""

    schema_version: Literal[1] = 1
    namespace_id: NamespaceId
    session_id: SessionId
    revision: int = Field(ge=1)
    creation_intent_digest: Digest
    endpoint: ObservedEndpoint | None
    policy: SessionPolicy
    session: SessionSnapshot
    queue: Queue
    desired_session_state: SessionState
    unlinked_gates: dict[str, GateAuthority] = Field(default_factory=dict)
    operations: dict[str, OperationRequest] = Field(default_factory=dict)
    outbox: dict[str, OutboxEvent] = Field(default_factory=dict)
    """What the journal doesn't have yet."""
    closing: Closing | None = None
    recovery: Recovery = Recovery()


class TurnProjection(Contract):
    """`projection/turns/<id>.json`: a turn with all that belongs to it."""

    schema_version: Literal[1] = 1
    turn: Turn
    prompts: dict[str, PromptRequest] = Field(default_factory=dict)
    questions: dict[str, Question] = Field(default_factory=dict)
    gate_authorities: dict[str, GateAuthority] = Field(default_factory=dict)
    answers: dict[str, AnswerRequest] = Field(default_factory=dict)


class Rebuilt(Contract):
    """A document put together from projections, and what it may lack."""

    document: SessionDocument
    notes: tuple[str, ...]


def session_projection(document: SessionDocument) -> SessionProjection:
    """The session's own file."""
    canonical = document.canonical
    linked = {each.authority_id for each in canonical.questions.values()}
    return SessionProjection(
        namespace_id=document.namespace_id,
        session_id=document.session_id,
        revision=document.revision,
        creation_intent_digest=document.creation_intent_digest,
        endpoint=document.endpoint,
        policy=document.policy,
        session=canonical.session,
        queue=canonical.queue,
        desired_session_state=canonical.desired_session_state,
        unlinked_gates={k: v for k, v in canonical.gate_authorities.items() if k not in linked},
        operations=document.requests.operations,
        outbox={
            key: event
            for key, event in document.outbox.items()
            if event.public_delivery.journal_seq is None
        },
        closing=document.closing,
        recovery=document.recovery,
    )


def turn_projections(
    document: SessionDocument, turn_ids: list[str] | None = None
) -> dict[str, TurnProjection]:
    """The files of these turns, or of all."""
    canonical, requests = document.canonical, document.requests
    wanted = canonical.turns if turn_ids is None else dict.fromkeys(turn_ids)
    prompts: dict[str, dict[str, PromptRequest]] = {}
    for key, prompt in requests.prompts.items():
        prompts.setdefault(prompt.coordinator_turn_id or "", {})[key] = prompt
    answers: dict[str, dict[str, AnswerRequest]] = {}
    for key, answer in requests.answers.items():
        answers.setdefault(answer.turn_id, {})[key] = answer
    return {
        turn_id: _turn_projection(
            document, canonical.turns[turn_id], prompts.get(turn_id, {}), answers.get(turn_id, {})
        )
        for turn_id in wanted
    }


def _turn_projection(
    document: SessionDocument,
    turn: Turn,
    prompts: dict[str, PromptRequest],
    answers: dict[str, AnswerRequest],
) -> TurnProjection:
    canonical = document.canonical
    questions = {each: canonical.questions[each] for each in turn.question_ids}
    gates = [each.authority_id for each in questions.values()]
    return TurnProjection(
        turn=turn,
        prompts=prompts,
        questions=questions,
        gate_authorities={each: canonical.gate_authorities[each] for each in gates},
        answers=answers,
    )


def rebuild(
    session: SessionProjection,
    turns: dict[str, TurnProjection],
    reports: dict[str, Report],
) -> Rebuilt:
    """Put a document together from what readers' files hold.

    The result keeps every rule of a document that the files allow; what had to be left out or
    can't be known is in the notes. The caller validates it before it is written.
    """
    notes = [
        f"rebuilt from the readers' files as of revision {session.revision}; "
        "what was committed after that and not yet projected isn't known"
    ]
    kept = {key: each.turn for key, each in turns.items() if key == each.turn.turn_id}
    queue, queue_notes = _queue(session.queue, kept)
    known_reports = {
        key: each for key, each in reports.items() if not each.turn_id or each.turn_id in kept
    }
    left_out = len(reports) - len(known_reports)
    if left_out:
        notes.append(f"{left_out} reports of turns without a file were left out")
    canonical = Canonical(
        session=session.session,
        turns=kept,
        queue=queue,
        desired_session_state=session.desired_session_state,
        reports=known_reports,
        gate_authorities={
            **session.unlinked_gates,
            **{k: v for each in turns.values() for k, v in each.gate_authorities.items()},
        },
        questions={k: v for each in turns.values() for k, v in each.questions.items()},
    )
    requests = Requests(
        prompts={k: v for each in turns.values() for k, v in each.prompts.items()},
        answers={k: v for each in turns.values() for k, v in each.answers.items()},
        operations=session.operations,
    )
    document = SessionDocument(
        creation_intent_digest=session.creation_intent_digest,
        namespace_id=session.namespace_id,
        session_id=session.session_id,
        revision=session.revision + 1,
        endpoint=session.endpoint,
        policy=session.policy,
        canonical=canonical,
        requests=requests,
        outbox=session.outbox,
        closing=session.closing,
        recovery=session.recovery,
    )
    return Rebuilt(document=document, notes=(*notes, *queue_notes))


def _queue(queue: Queue, turns: dict[str, Turn]) -> tuple[Queue, list[str]]:
    """The queue as far as its turns have files; the turns' own statuses decide."""
    notes = []
    active = [key for key, turn in turns.items() if turn.status in ACTIVE_TURN]
    waiting = [key for key in queue.ordered_turn_ids if key in turns]
    unplaced = [
        key for key, turn in turns.items() if turn.status == "queued" and key not in waiting
    ]
    lost = len(queue.ordered_turn_ids) - len(waiting)
    if lost:
        notes.append(f"{lost} queued turns have no file and are lost")
    promotion = queue.selected_promotion
    if promotion and not (promotion.from_turn_id in turns and promotion.to_turn_id in turns):
        promotion = None
    ordered = [key for key in (*waiting, *unplaced) if turns[key].status == "queued"]
    rebuilt = Queue(
        ordered_turn_ids=tuple(ordered),
        active_turn_id=active[0] if active else None,
        selected_promotion=promotion,
    )
    return rebuilt, notes
