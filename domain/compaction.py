"""How a session's document stays small: what leaves it, in which order, and what never does.

Thirty days of retention, one mebibyte, and a reserve beyond it for what must be written. First
goes what is old and finished: acknowledged events, and requests that nothing refers to. Only in a
document that has grown (it is kept at a quarter of the limit where it can be), and oldest first,
go acknowledged events of any age, then ended turns with all that belongs to them, and last what
answered operations keep. What is under way, what the journal doesn't have and both ends of a
promotion always stay. Whatever leaves is handed back for the archive, which must be written before
the document is.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta

from muster.domain.changes import Change
from muster.domain.contract import parse_time
from muster.domain.errors import QueryUnavailable
from muster.domain.history import SessionHistory
from muster.domain.removal import Removal
from muster.domain.session_document import OperationRequest, OutboxEvent, SessionDocument, encode
from muster.domain.turn_model import TERMINAL_TURN, Turn

RETENTION = timedelta(days=30)
EAGER_BYTES = 256 * 1024
"""Where compaction begins: each commit reads and writes the whole document, so a small one keeps
the thousandth prompt as cheap as the first."""
NORMAL_BYTES = 1024 * 1024
EMERGENCY_BYTES = 128 * 1024

_OPTIONAL_CHANGES = ("accept_prompt", "claim_answer", "file_report")


@dataclass(frozen=True)
class Limits:
    """How long and how much a document keeps."""

    retention: timedelta = RETENTION
    eager_bytes: int = EAGER_BYTES
    normal_bytes: int = NORMAL_BYTES
    emergency_bytes: int = EMERGENCY_BYTES

    @property
    def compact_bytes(self) -> int:
        """Above this, ended turns leave."""
        return min(self.eager_bytes, self.normal_bytes)

    @property
    def target_bytes(self) -> int:
        """Where turns stop being removed: so far below that the next writes have room."""
        return self.compact_bytes * 3 // 4

    @property
    def reserve_bytes(self) -> int:
        """The most that a document may ever have."""
        return self.normal_bytes + self.emergency_bytes

    def is_old(self, time: str, now: str) -> bool:
        """True if the retention from `time` on is over."""
        return parse_time(time) + self.retention < parse_time(now)


LIMITS = Limits()


@dataclass(frozen=True)
class Compacted:
    """A document within its limits, its bytes when encoded, and what left it."""

    document: SessionDocument
    removed: SessionHistory
    size: int


def compact(
    document: SessionDocument, now: str, size: int | None = None, limits: Limits = LIMITS
) -> Compacted:
    """Remove what is old, and what is too much.

    Args:
        document: As it is about to be written.
        now: The moment from which the retention counts, as a timestamp.
        size: The bytes of `encode(document)`, if they are known already.

    Returns the same document object if nothing leaves it.

    Raises:
        QueryUnavailable: What has to stay passes the limit and its reserve.
    """
    removal = Removal(document, len(encode(document)) if size is None else size)
    _drop_expired(removal, now, limits)
    if removal.size > limits.compact_bytes:
        _drop_excess(removal, now, limits)
    _require(removal.size, limits.reserve_bytes, document.session_id)
    return Compacted(removal.remaining(), removal.removed(), removal.size)


def compact_for(
    change: Change,
    document: SessionDocument,
    now: str,
    size: int | None = None,
    limits: Limits = LIMITS,
) -> Compacted:
    """`compact` for the document that `change` made; only an essential one may use the reserve.

    Raises QueryUnavailable if the change has to be refused for want of room.
    """
    compacted = compact(document, now, size, limits)
    if not is_essential(change):
        _require(compacted.size, limits.normal_bytes, document.session_id)
    return compacted


def is_essential(change: Change) -> bool:
    """True for what can't be refused: facts that happened, and what ends or settles things."""
    return change.type not in _OPTIONAL_CHANGES


def _require(size: int, limit: int, session_id: str) -> None:
    if size > limit:
        raise QueryUnavailable(
            f"the document of session {session_id} would have {size} bytes, more than {limit}, "
            "and nothing more can leave it; let its turns end and its events be published, "
            "or close it",
            size=size,
            limit=limit,
        )


def _drop_expired(removal: Removal, now: str, limits: Limits) -> None:
    document = removal.document
    canonical, requests = document.canonical, document.requests
    for event in _acknowledged(document):
        if limits.is_old(_event_time(event), now):
            removal.drop("outbox", event.id)
    # An accepted answer is what its question refers to: it leaves with its turn, never before.
    for key, prompt in requests.prompts.items():
        turn = canonical.turns.get(prompt.coordinator_turn_id or "")
        if turn is None or turn.status not in TERMINAL_TURN:
            continue
        if limits.is_old(prompt.updated_at, now) and limits.is_old(
            turn.completed_at or turn.updated_at, now
        ):
            removal.drop("prompts", key)
    reported = {report.operation_id for report in canonical.reports.values()}
    for key, operation in requests.operations.items():
        if (
            _is_sealed(operation)
            and key not in reported
            and limits.is_old(operation.updated_at, now)
        ):
            removal.drop("operations", key)


def _drop_excess(removal: Removal, now: str, limits: Limits) -> None:
    for event in _acknowledged(removal.document):
        removal.drop("outbox", event.id)
    if removal.size <= limits.compact_bytes:
        return

    def is_fresh(operation: OperationRequest) -> bool:
        return not limits.is_old(operation.updated_at, now)

    _drop_turns(removal, limits.target_bytes, is_fresh)
    if removal.size > limits.normal_bytes:
        _drop_turns(removal, limits.normal_bytes, lambda _: False)
        _drop_turnless_operations(removal, limits.normal_bytes)


def _drop_turns(
    removal: Removal, target: int, is_fresh: Callable[[OperationRequest], bool]
) -> None:
    """Ended turns, oldest first, until the target is reached."""
    ended = [
        turn
        for turn in removal.document.canonical.turns.values()
        if turn.status in TERMINAL_TURN and turn.turn_id not in removal.keys["turns"]
    ]
    for turn in sorted(ended, key=lambda each: (parse_time(each.updated_at), each.turn_id)):
        if removal.size <= target:
            return
        if not _must_stay(removal, turn, is_fresh):
            removal.drop_turn(turn.turn_id)


def _must_stay(removal: Removal, turn: Turn, is_fresh: Callable[[OperationRequest], bool]) -> bool:
    promotion = removal.document.canonical.queue.selected_promotion
    if promotion is not None and turn.turn_id in (promotion.from_turn_id, promotion.to_turn_id):
        return True
    requests, owned = removal.document.requests, removal.of_turn(turn.turn_id)
    operations = [requests.operations[key] for key in owned["operations"]]
    return (
        any(not _is_sealed(each) or is_fresh(each) for each in operations)
        or any(requests.answers[key].safe_receipt is None for key in owned["answers"])
        or removal.is_entangled(turn.turn_id)
    )


def _drop_turnless_operations(removal: Removal, target: int) -> None:
    """Answered operations that belong to no turn, oldest first, each with its report."""
    document = removal.document
    reports = {report.operation_id: key for key, report in document.canonical.reports.items()}
    loose = [
        (parse_time(each.updated_at), each.operation_id)
        for each in document.requests.operations.values()
        if _is_sealed(each) and each.intent.get("turn_id") not in document.canonical.turns
    ]
    for _, operation_id in sorted(loose):
        if removal.size <= target:
            return
        removal.drop("operations", operation_id)
        if operation_id in reports:
            removal.drop("reports", reports[operation_id])


def _is_sealed(operation: OperationRequest) -> bool:
    return operation.safe_response is not None


def _acknowledged(document: SessionDocument) -> list[OutboxEvent]:
    """The events that the journal has, less those of this very revision."""
    return [
        event
        for event in document.outbox.values()
        if event.public_delivery.journal_seq is not None
        and event.transaction_revision < document.revision
    ]


def _event_time(event: OutboxEvent) -> str:
    created = event.payload.get("created_at")
    return str(created or event.public_delivery.acknowledged_at)
