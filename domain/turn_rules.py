"""Rules over turns, prompt requests, the queue and reports."""

from __future__ import annotations

from collections.abc import Iterator

from muster.domain.rule_registry import repeated, rule
from muster.domain.session_document import SessionDocument
from muster.domain.turn_model import ACTIVE_TURN, TERMINAL_TURN, TurnStatus


@rule("turn.key")
def _turn_key(document: SessionDocument) -> Iterator[tuple[str, str]]:
    for key, turn in document.canonical.turns.items():
        if key != turn.turn_id:
            yield f"canonical.turns.{key}", f"is filed under another id than {turn.turn_id}"


@rule("turn.identity")
def _turn_identity(document: SessionDocument) -> Iterator[tuple[str, str]]:
    for key, turn in document.canonical.turns.items():
        if (turn.namespace_id, turn.session_id) != (document.namespace_id, document.session_id):
            yield f"canonical.turns.{key}", "belongs to another session"


@rule("turn.provenance")
def _turn_provenance(document: SessionDocument) -> Iterator[tuple[str, str]]:
    for key, turn in document.canonical.turns.items():
        found = turn.runtime_provenance
        if found is not None and (
            found.namespace_id,
            found.session_id,
            found.coordinator_turn_id,
        ) != (document.namespace_id, document.session_id, key):
            yield f"canonical.turns.{key}.runtime_provenance", "is of another turn"


@rule("turn.question_ids_unique")
def _turn_question_ids(document: SessionDocument) -> Iterator[tuple[str, str]]:
    for key, turn in document.canonical.turns.items():
        for question_id in repeated(turn.question_ids):
            yield f"canonical.turns.{key}.question_ids", f"names {question_id} twice"


@rule("turn.queued_untouched")
def _turn_queued(document: SessionDocument) -> Iterator[tuple[str, str]]:
    for key, turn in document.canonical.turns.items():
        touched = turn.started_at or turn.completed_at or turn.terminal_fence
        if turn.status == TurnStatus.QUEUED and touched:
            yield f"canonical.turns.{key}", "is queued and yet started, completed or fenced"


@rule("turn.terminal_fenced")
def _turn_terminal(document: SessionDocument) -> Iterator[tuple[str, str]]:
    for key, turn in document.canonical.turns.items():
        if turn.status not in TERMINAL_TURN:
            continue
        fence = turn.terminal_fence
        if turn.completed_at is None or fence is None or fence.status != turn.status:
            yield (
                f"canonical.turns.{key}",
                f"is {turn.status} without its completion time or its own fence",
            )


@rule("turn.active_started")
def _turn_active(document: SessionDocument) -> Iterator[tuple[str, str]]:
    for key, turn in document.canonical.turns.items():
        ended = turn.completed_at or turn.terminal_fence
        if turn.status in ACTIVE_TURN and (turn.started_at is None or ended):
            yield f"canonical.turns.{key}", f"is {turn.status}, but not started or already ended"


@rule("turn.acknowledged_delivery")
def _turn_delivery(document: SessionDocument) -> Iterator[tuple[str, str]]:
    for key, turn in document.canonical.turns.items():
        delivery = turn.delivery
        complete = (
            delivery.state == "acknowledged"
            and delivery.runtime_command_id
            and delivery.runtime_turn_id
        )
        if delivery.prompt_acknowledged and not complete:
            yield f"canonical.turns.{key}.delivery", "is acknowledged without the runtime's ids"


@rule("turn.receipt")
def _turn_receipt(document: SessionDocument) -> Iterator[tuple[str, str]]:
    receipts = {
        (
            request.coordinator_turn_id,
            request.runtime_receipt.command_id,
            request.runtime_receipt.runtime_turn_id,
        )
        for request in document.requests.prompts.values()
        if request.runtime_receipt is not None
    }
    for key, turn in document.canonical.turns.items():
        if turn.status in ACTIVE_TURN and turn.delivery.prompt_acknowledged:
            wanted = (key, turn.delivery.runtime_command_id, turn.delivery.runtime_turn_id)
            if wanted not in receipts:
                yield f"canonical.turns.{key}.delivery", "has no prompt request with its receipt"


@rule("prompt.key")
def _prompt_key(document: SessionDocument) -> Iterator[tuple[str, str]]:
    for key, request in document.requests.prompts.items():
        if key != request.key_digest:
            yield f"requests.prompts.{key}", "is filed under another key digest than its own"


@rule("prompt.turn")
def _prompt_turn(document: SessionDocument) -> Iterator[tuple[str, str]]:
    for key, request in document.requests.prompts.items():
        turn = request.coordinator_turn_id
        if turn is not None and turn not in document.canonical.turns:
            yield f"requests.prompts.{key}.coordinator_turn_id", f"names {turn}, which isn't there"


@rule("prompt.request_ids_unique")
def _prompt_request_ids(document: SessionDocument) -> Iterator[tuple[str, str]]:
    for found in repeated(each.request_id for each in document.requests.prompts.values()):
        yield "requests.prompts", f"has the request id {found} twice"


@rule("report.key")
def _report_key(document: SessionDocument) -> Iterator[tuple[str, str]]:
    for key, report in document.canonical.reports.items():
        if key != report.report_id:
            yield f"canonical.reports.{key}", "is filed under another id than its own"


@rule("report.session")
def _report_session(document: SessionDocument) -> Iterator[tuple[str, str]]:
    for key, report in document.canonical.reports.items():
        if report.session_id != document.session_id:
            yield f"canonical.reports.{key}.session_id", "is of another session"


@rule("report.turn")
def _report_turn(document: SessionDocument) -> Iterator[tuple[str, str]]:
    for key, report in document.canonical.reports.items():
        if report.turn_id and report.turn_id not in document.canonical.turns:
            yield f"canonical.reports.{key}.turn_id", "names a turn that isn't there"


@rule("report.evidence_unique")
def _report_evidence(document: SessionDocument) -> Iterator[tuple[str, str]]:
    for key, report in document.canonical.reports.items():
        for found in repeated(report.evidence_paths):
            yield f"canonical.reports.{key}.evidence_paths", f"names {found} twice"


@rule("report.operation_ids_unique")
def _report_operations(document: SessionDocument) -> Iterator[tuple[str, str]]:
    for found in repeated(each.operation_id for each in document.canonical.reports.values()):
        yield "canonical.reports", f"has the operation id {found} twice"


@rule("queue.unique")
def _queue_unique(document: SessionDocument) -> Iterator[tuple[str, str]]:
    for found in repeated(document.canonical.queue.ordered_turn_ids):
        yield "canonical.queue.ordered_turn_ids", f"names {found} twice"


@rule("queue.queued")
def _queue_queued(document: SessionDocument) -> Iterator[tuple[str, str]]:
    for turn_id in document.canonical.queue.ordered_turn_ids:
        turn = document.canonical.turns.get(turn_id)
        if turn is None or turn.status != TurnStatus.QUEUED:
            yield "canonical.queue.ordered_turn_ids", f"names {turn_id}, which isn't queued"


@rule("queue.complete")
def _queue_complete(document: SessionDocument) -> Iterator[tuple[str, str]]:
    queued = set(document.canonical.queue.ordered_turn_ids)
    for key, turn in document.canonical.turns.items():
        if turn.status == TurnStatus.QUEUED and key not in queued:
            yield f"canonical.turns.{key}", "is queued and not in the queue"


@rule("queue.active")
def _queue_active(document: SessionDocument) -> Iterator[tuple[str, str]]:
    active_id = document.canonical.queue.active_turn_id
    active = document.canonical.turns.get(active_id) if active_id else None
    if active_id and (active is None or active.status not in ACTIVE_TURN):
        yield "canonical.queue.active_turn_id", f"names {active_id}, which isn't active"


@rule("queue.single_active")
def _queue_single(document: SessionDocument) -> Iterator[tuple[str, str]]:
    active_id = document.canonical.queue.active_turn_id
    for key, turn in document.canonical.turns.items():
        if turn.status in ACTIVE_TURN and key != active_id:
            yield f"canonical.turns.{key}", "is active beside the queue's active turn"


@rule("queue.promotion")
def _queue_promotion(document: SessionDocument) -> Iterator[tuple[str, str]]:
    promotion = document.canonical.queue.selected_promotion
    if promotion is None:
        return
    turns = document.canonical.turns
    if promotion.from_turn_id not in turns or promotion.to_turn_id not in turns:
        yield "canonical.queue.selected_promotion", "names a turn that isn't there"


@rule("queue.promotion_revision")
def _queue_promotion_revision(document: SessionDocument) -> Iterator[tuple[str, str]]:
    promotion = document.canonical.queue.selected_promotion
    if promotion is not None and promotion.revision > document.revision:
        yield "canonical.queue.selected_promotion.revision", "is ahead of the document's revision"
