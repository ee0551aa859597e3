"""Prompts: what is accepted, what is refused, and the receipt that follows.

`turn.prompt` is refused while a turn is active or waiting, `turn.follow_up` queues, and
`turn.abort_and_prompt` is next once the turn it aborts has settled.
"""

from __future__ import annotations

from muster.domain.changes import AcceptPrompt, Applied, PromptAccepted, RecordDelivery
from muster.domain.draft import Draft
from muster.domain.errors import ActiveTurnExists, QueueFull
from muster.domain.identifiers import turn_id
from muster.domain.runtime import DeliverReceipt
from muster.domain.session_document import CanonicalPrompt, Promotion, PromptRequest
from muster.domain.transitions.admission import (
    require_open,
    require_runtime,
    require_same_request,
)
from muster.domain.transitions.turns import start_turn
from muster.domain.turn_model import (
    ACTIVE_TURN,
    Delivery,
    DeliveryAttempt,
    Turn,
    TurnPrompt,
    TurnStatus,
)


def accept_prompt(draft: Draft, change: AcceptPrompt) -> PromptAccepted:
    """File a prompt under its key and start or queue its turn.

    Raises:
        IdempotencyConflict: The key was used for another prompt.
        ActiveTurnExists: `turn.prompt` while a turn runs or waits.
        QueueFull: The queue has no room.
        SessionClosing: A close is admitted.
        RuntimeGone: The agent has ended.
    """
    known = draft.prompts.get(change.key_digest)
    if known is not None:
        fields = _differing_fields(known, change)
        require_same_request("prompt", known.request_digest, change.request_digest, fields)
        return prompt_answer(known, repeated=True)
    require_open(draft)
    require_runtime(draft)
    _admit(draft, change)
    request = _file_request(draft, change)
    return prompt_answer(request, repeated=False)


def prompt_answer(request: PromptRequest, *, repeated: bool) -> PromptAccepted:
    """What a prompt's key was answered first."""
    first = request.safe_response or {}
    position = first.get("position", 0)
    return PromptAccepted(
        request_id=request.request_id,
        turn_id=str(first.get("turn_id") or request.coordinator_turn_id),
        position=position if isinstance(position, int) else 0,
        repeated=repeated,
    )


def _admit(draft: Draft, change: AcceptPrompt) -> None:
    active = draft.active_turn
    waiting = draft.queue.ordered_turn_ids
    if change.operation == "turn.prompt" and (active or waiting):
        busy = active.turn_id if active else waiting[0]
        raise ActiveTurnExists(
            f"turn {busy} of session {draft.base.session_id} isn't finished; "
            "queue behind it with turn.follow_up or replace it with turn.abort_and_prompt",
            turn_id=busy,
        )
    limit = draft.base.policy.queue_limit
    if active and len(waiting) >= limit:
        raise QueueFull(
            f"session {draft.base.session_id} has {len(waiting)} queued prompts, its limit; "
            "wait for one to start or cancel one",
            limit=limit,
        )


def _file_request(draft: Draft, change: AcceptPrompt) -> PromptRequest:
    turn = _new_turn(draft, change)
    draft.turns[turn.turn_id] = turn
    position = _place(draft, change, turn)
    request = PromptRequest(
        request_id=f"prompt-{change.key_digest[:32]}",
        key_digest=change.key_digest,
        request_digest=change.request_digest,
        operation=change.operation,
        canonical_prompt=CanonicalPrompt(text=change.content.text),
        sdk_idempotency_key=f"prompt_{change.key_digest}",
        coordinator_turn_id=turn.turn_id,
        safe_response={"turn_id": turn.turn_id, "position": position},
        created_at=draft.at,
        updated_at=draft.at,
    )
    draft.prompts[change.key_digest] = request
    draft.update_recovery(prompt_watermark_at=draft.at)
    draft.emit("turn.queued", "turn", turn.turn_id, position=position, operation=change.operation)
    return request


def _new_turn(draft: Draft, change: AcceptPrompt) -> Turn:
    return Turn(
        turn_id=turn_id(change.key_digest),
        session_id=draft.base.session_id,
        namespace_id=draft.base.namespace_id,
        status=TurnStatus.QUEUED,
        prompt=TurnPrompt(**change.content.model_dump(), created_at=draft.at, source=change.source),
        delivery=Delivery(queued=True, state="queued"),
        created_at=draft.at,
        updated_at=draft.at,
    )


def _place(draft: Draft, change: AcceptPrompt, turn: Turn) -> int:
    active = draft.active_turn
    waiting = draft.queue.ordered_turn_ids
    if active is None:
        start_turn(draft, turn)
        return 0
    if change.operation == "turn.abort_and_prompt":
        draft.update_queue(
            ordered_turn_ids=(turn.turn_id, *waiting),
            selected_promotion=Promotion(
                from_turn_id=active.turn_id, to_turn_id=turn.turn_id, revision=draft.revision
            ),
        )
        return 1
    draft.update_queue(ordered_turn_ids=(*waiting, turn.turn_id))
    return 1 + len(waiting)


def _differing_fields(known: PromptRequest, change: AcceptPrompt) -> list[str]:
    found = []
    if known.operation != change.operation:
        found.append("operation")
    if known.canonical_prompt.text != change.content.text or not found:
        found.append("text")
    return found


def record_delivery(draft: Draft, change: RecordDelivery) -> Applied:
    """File the runtime's receipt once; a turn that was being delivered is active now."""
    turn = draft.turns.get(change.turn_id)
    # A turn that has ended and is in the archive already needs no receipt any more.
    if turn is not None:
        acknowledge(draft, turn, change.receipt)
    return Applied()


def acknowledge(draft: Draft, turn: Turn, receipt: DeliverReceipt) -> None:
    """The runtime has the prompt: note its ids once, also for a turn that has ended since."""
    if turn.delivery.prompt_acknowledged:
        return
    attempt = DeliveryAttempt(delivered=True, created_at=draft.at, channel="runtime_ack")
    delivery = turn.delivery.model_copy(
        update={
            "delivered": True,
            "queued": False,
            "state": "acknowledged",
            "prompt_acknowledged": True,
            "runtime_command_id": receipt.command_id,
            "runtime_turn_id": receipt.runtime_turn_id,
            "attempts": (*turn.delivery.attempts, attempt),
        }
    )
    status = TurnStatus.ACTIVE if turn.status == TurnStatus.DELIVERING else turn.status
    draft.update_turn(turn, delivery=delivery, status=status)
    for request in draft.prompts.values():
        if request.coordinator_turn_id == turn.turn_id:
            draft.prompts[request.key_digest] = request.model_copy(
                update={"runtime_receipt": receipt, "updated_at": draft.at}
            )
            break
    if status in ACTIVE_TURN:
        draft.emit("turn.started", "turn", turn.turn_id, runtime_turn_id=receipt.runtime_turn_id)
