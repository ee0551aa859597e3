"""The bounded read copy of a session: what a person wants to see, without a live worker.

It is derived from the document alone and never larger than a few hundred KiB; a field cut short
says so and gives the full length.
"""

from __future__ import annotations

from muster.domain.contract import Contract
from muster.domain.control import MusterStatus, control_of
from muster.domain.gate_model import Question
from muster.domain.runtime import GateOption
from muster.domain.session_document import Report, SessionDocument, SessionState
from muster.domain.turn_model import Turn, TurnStatus

VIEW_TURNS = 20
VIEW_QUEUE = 64
VIEW_QUESTIONS = 16
VIEW_REPORTS = 5
EXCERPT_CHARACTERS = 2_000


class Excerpt(Contract):
    """The beginning of a text."""

    text: str
    truncated: bool = False
    length: int
    """Characters of what the document holds, or bytes of the whole when that is elsewhere."""


class TurnView(Contract):
    """A turn for readers."""

    turn_id: str
    status: TurnStatus
    prompt: Excerpt
    response: Excerpt | None = None
    stop_reason: str | None = None
    error: str | None = None
    head_before: str | None = None
    head_after: str | None = None
    created_at: str
    started_at: str | None = None
    completed_at: str | None = None


class QuestionView(Contract):
    """An open question for readers."""

    question_id: str
    turn_id: str
    status: str
    prompt: str
    options: tuple[GateOption, ...]
    created_at: str


class SessionView(Contract):
    """A session for readers."""

    namespace_id: str
    session_id: str
    incarnation: str
    revision: int
    status: MusterStatus
    state: SessionState
    title: str | None
    cwd: str
    model: str | None
    source: str | None
    runtime: str
    endpoint_url: str
    key_id: str
    created_at: str
    updated_at: str
    active_turn_id: str | None
    queue: tuple[str, ...]
    queued: int
    turns: tuple[TurnView, ...]
    """The last ones, oldest first; of a long queue only its beginning."""
    turn_count: int
    questions: tuple[QuestionView, ...]
    reports: tuple[Report, ...]
    """The last ones, newest first."""
    gone: str | None


def view_of(document: SessionDocument) -> SessionView:
    """The read copy of a document."""
    canonical = document.canonical
    session, queue = canonical.session, canonical.queue
    control = control_of(document)
    turns = sorted(canonical.turns.values(), key=_turn_order)
    reports = sorted(canonical.reports.values(), key=lambda each: each.created_at, reverse=True)
    asking = [each for each in canonical.questions.values() if each.status == "pending"]
    return SessionView(
        namespace_id=document.namespace_id,
        session_id=document.session_id,
        incarnation=session.broker.endpoint_incarnation,
        revision=document.revision,
        status=control.status,
        state=canonical.desired_session_state,
        title=session.title,
        cwd=session.cwd,
        model=session.model,
        source=session.source,
        runtime=session.broker.runtime.value,
        endpoint_url=session.broker.endpoint_url,
        key_id=session.broker.sidecar_verifier.key_id,
        created_at=session.created_at,
        updated_at=session.updated_at,
        active_turn_id=queue.active_turn_id,
        queue=queue.ordered_turn_ids[:VIEW_QUEUE],
        queued=len(queue.ordered_turn_ids),
        turns=tuple(turn_view(turn) for turn in _shown(turns)),
        turn_count=len(turns),
        questions=tuple(_question_view(each) for each in asking[:VIEW_QUESTIONS]),
        reports=tuple(reports[:VIEW_REPORTS]),
        gone=document.recovery.runtime_gone_reason,
    )


def _shown(turns: list[Turn]) -> list[Turn]:
    """The last turns; a long queue doesn't push out the one that runs and those that ended."""
    ended = sum(turn.terminal_fence is not None for turn in turns)
    first = max(0, min(ended - VIEW_TURNS // 2, len(turns) - VIEW_TURNS))
    return turns[first : first + VIEW_TURNS]


def _turn_order(turn: Turn) -> tuple[int, int, str]:
    """Ended turns by their fence, then the one that runs, then those that wait."""
    if turn.terminal_fence is not None:
        return (0, turn.terminal_fence.epoch, turn.turn_id)
    return (2 if turn.status == TurnStatus.QUEUED else 1, 0, turn.created_at)


def _excerpt(text: str, whole: int | None) -> Excerpt:
    """The beginning of `text`, which may itself be the beginning of `whole` bytes."""
    cut = text[:EXCERPT_CHARACTERS]
    length = max(whole or 0, len(text))
    elsewhere = whole is not None and whole > len(text.encode())
    return Excerpt(text=cut, truncated=elsewhere or len(cut) < len(text), length=length)


def turn_view(turn: Turn) -> TurnView:
    """The read copy of one turn."""
    response = turn.final_response
    tree = next((each for each in turn.evidence if each.get("kind") == "working_tree"), {})
    before, after = tree.get("head_before"), tree.get("head_after")
    return TurnView(
        turn_id=turn.turn_id,
        status=turn.status,
        prompt=_excerpt(turn.prompt.text, turn.prompt.length),
        response=None if response.text is None else _excerpt(response.text, response.length),
        stop_reason=turn.stop_reason,
        error=turn.error.message if turn.error else None,
        head_before=str(before) if before else None,
        head_after=str(after) if after else None,
        created_at=turn.created_at,
        started_at=turn.started_at,
        completed_at=turn.completed_at,
    )


def _question_view(question: Question) -> QuestionView:
    return QuestionView(
        question_id=question.question_id,
        turn_id=question.turn_id,
        status=question.status,
        prompt=question.prompt,
        options=question.codec.options,
        created_at=question.created_at,
    )
