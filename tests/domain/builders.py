"""Session documents and changes for tests, each with the defaults that keep a test short.

Documents come from the transitions themselves, so that what a test starts from is what a session
really holds at that point.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, Literal, TypeVar

from muster.domain.canonical import canonical_digest, sha256_hex
from muster.domain.changes import (
    AcceptPrompt,
    AcknowledgeEvents,
    Acknowledgement,
    AdmitClose,
    CancelTurn,
    Change,
    ClaimAnswer,
    FailTurn,
    FileReport,
    Outcome,
    RecordDelivery,
    RecordEvents,
    RequestStop,
    SettleAnswer,
)
from muster.domain.contract import timestamp
from muster.domain.creation import CreateCommand, CreateSpec, first_document
from muster.domain.identifiers import authority_id, deletion_id, question_id, turn_id
from muster.domain.runtime import (
    AnswerReceipt,
    DeliverReceipt,
    FinalResponse,
    GateClosed,
    GateOpened,
    GateOption,
    RejectedEvent,
    RuntimeEvent,
    RuntimeKind,
    TurnEnded,
    TurnStarted,
    Verifier,
)
from muster.domain.session_document import Broker, PromptOperation, SessionDocument, SessionPolicy
from muster.domain.transitions import apply
from muster.domain.turn_model import Content

NAMESPACE = "fleet"
SESSION = "s-1"
INCARNATION = "inc-1"
VERIFIER = Verifier(key_id="a" * 64, public_key="cHVibGlj")
START = datetime(2026, 1, 1, tzinfo=UTC)
OPTIONS = (
    GateOption(option_id="allow", name="Allow", kind="allow_once"),
    GateOption(option_id="reject", name="Reject", kind="reject_once"),
)

OutcomeT = TypeVar("OutcomeT", bound=Outcome)
StopReason = Literal["end_turn", "max_tokens", "refusal", "cancelled", "error"]


def moment(minutes: float = 0) -> str:
    """A time some minutes after the session began."""
    return timestamp(START + timedelta(minutes=minutes))


def key(name: str) -> str:
    """The key digest for a caller's key."""
    return sha256_hex(name)


def turn_of(name: str) -> str:
    """The turn that the prompt under this key gets."""
    return turn_id(key(name))


def authority_of(gate: str) -> str:
    """The authority of the gate."""
    return authority_id(NAMESPACE, SESSION, INCARNATION, gate)


def question_of(gate: str) -> str:
    """The question that the gate becomes."""
    return question_id(authority_of(gate))


# Changes


def prompt(
    name: str, text: str = "do it", operation: PromptOperation = "turn.prompt"
) -> AcceptPrompt:
    return AcceptPrompt(
        operation=operation,
        key_digest=key(name),
        request_digest=canonical_digest([operation, text]),
        content=Content(text=text),
    )


def follow_up(name: str, text: str = "then this") -> AcceptPrompt:
    return prompt(name, text, "turn.follow_up")


def abort(name: str, text: str = "rather this") -> AcceptPrompt:
    return prompt(name, text, "turn.abort_and_prompt")


def receipt(name: str) -> DeliverReceipt:
    return DeliverReceipt(command_id=f"cmd-{name}", runtime_turn_id=f"rt-{name}")


def delivered(name: str) -> RecordDelivery:
    return RecordDelivery(turn_id=turn_of(name), receipt=receipt(name))


def events(
    *found: RuntimeEvent,
    rejected: tuple[RejectedEvent, ...] = (),
    cursor: int | None = None,
    gone: bool = False,
) -> RecordEvents:
    reached = max((each.seq for each in found), default=0) if cursor is None else cursor
    return RecordEvents(events=found, rejected=rejected, cursor=reached, gone=gone)


def started(seq: int, name: str) -> TurnStarted:
    return TurnStarted(
        seq=seq,
        at=moment(seq),
        turn_id=turn_of(name),
        runtime_turn_id=f"rt-{name}",
        command_id=f"cmd-{name}",
    )


def gate(seq: int, gate_id: str, name: str, /, **fields: Any) -> GateOpened:
    values: dict[str, Any] = {
        "seq": seq,
        "at": moment(seq),
        "gate_id": gate_id,
        "turn_id": turn_of(name),
        "runtime_turn_id": f"rt-{name}",
        "stage": "tool_call",
        "kind": "permission",
        "prompt": "May I?",
        "options": OPTIONS,
    }
    return GateOpened.model_validate({**values, **fields})


def gate_closed(seq: int, gate_id: str, name: str, option_id: str | None) -> GateClosed:
    return GateClosed(
        seq=seq,
        at=moment(seq),
        gate_id=gate_id,
        turn_id=turn_of(name),
        outcome="answered" if option_id else "cancelled",
        option_id=option_id,
    )


def ended(
    seq: int, name: str, stop_reason: StopReason = "end_turn", text: str = "done", **fields: Any
) -> TurnEnded:
    said = FinalResponse(text=text, length=len(text.encode()), sha256=sha256_hex(text))
    return TurnEnded(
        seq=seq,
        at=moment(seq),
        turn_id=turn_of(name),
        runtime_turn_id=f"rt-{name}",
        stop_reason=stop_reason,
        response=said,
        **fields,
    )


def answer(name: str, gate_id: str, option_id: str | None = "allow") -> ClaimAnswer:
    return ClaimAnswer(
        key_digest=key(name),
        request_digest=canonical_digest([gate_id, option_id]),
        question_id=question_of(gate_id),
        option_id=option_id,
    )


def settled(name: str, status: Literal["accepted", "rejected"] = "accepted") -> SettleAnswer:
    return SettleAnswer(key_digest=key(name), receipt=AnswerReceipt(status=status))


def stop(
    name: str,
    *,
    keep_queue: bool = False,
    of: str | None = None,
    reason: Literal["stopped", "question_timeout"] = "stopped",
) -> RequestStop:
    return RequestStop(
        key_digest=key(name),
        request_digest=canonical_digest(["stop", keep_queue, of, reason]),
        reason=reason,
        keep_queue=keep_queue,
        turn_id=turn_of(of) if of else None,
    )


def cancel(name: str, of: str) -> CancelTurn:
    return CancelTurn(
        key_digest=key(name), request_digest=canonical_digest(["cancel", of]), turn_id=turn_of(of)
    )


def report(operation_id: str, of: str | None = None, summary: str = "all well") -> FileReport:
    return FileReport(
        operation_id=operation_id,
        key_digest=key(operation_id),
        request_digest=canonical_digest(["report", of, summary]),
        turn_id=turn_of(of) if of else None,
        status="progress",
        summary=summary,
    )


def failure(name: str, code: str = "delivery_failed", *, runtime_gone: bool = False) -> FailTurn:
    return FailTurn(turn_id=turn_of(name), code=code, message="it broke", runtime_gone=runtime_gone)


def close(
    name: str = "close",
    *,
    force: bool = False,
    idle_before: str | None = None,
    incarnation: str = INCARNATION,
) -> AdmitClose:
    return AdmitClose(
        deletion_id=deletion_id(SESSION, incarnation),
        key_digest=key(name),
        request_digest=canonical_digest(["close", force]),
        incarnation=incarnation,
        force=force,
        idle_before=idle_before,
    )


def acknowledged(document: SessionDocument) -> AcknowledgeEvents:
    """The journal has all that the document owes it."""
    owed = [
        event for event in document.outbox.values() if event.public_delivery.journal_seq is None
    ]
    return AcknowledgeEvents(
        acknowledgements=tuple(
            Acknowledgement(public_event_id=event.public_event_id, journal_seq=seq)
            for seq, event in enumerate(owed, 1)
        )
    )


# Documents


def idle(policy: SessionPolicy | None = None) -> SessionDocument:
    """A session that nobody has prompted."""
    command = CreateCommand(
        namespace_id=NAMESPACE,
        key_digest=key("create"),
        spec=CreateSpec(session_id=SESSION, cwd="/home/dev", policy=policy or SessionPolicy()),
    )
    broker = Broker(
        runtime=RuntimeKind.ACP,
        endpoint_url="acp:sessions/s-1",
        endpoint_generation=1,
        endpoint_incarnation=INCARNATION,
        sidecar_verifier=VERIFIER,
    )
    return first_document(command, broker, moment())


def after(document: SessionDocument, *changes: Change, minutes: float = 1) -> SessionDocument:
    """The document once the changes are applied."""
    for change in changes:
        document, _ = apply(document, change, moment(minutes))
    return document


def outcome(
    document: SessionDocument, change: Change, expected: type[OutcomeT]
) -> tuple[SessionDocument, OutcomeT]:
    """The next document and the outcome, which is of the expected type."""
    following, found = apply(document, change, moment(2))
    assert isinstance(found, expected)
    return following, found


def delivering() -> SessionDocument:
    """Turn p1 is on its way to the runtime."""
    return after(idle(), prompt("p1"))


def active() -> SessionDocument:
    """Turn p1 runs; the runtime's log is applied up to 1."""
    return after(delivering(), delivered("p1"), events(started(1, "p1")))


def queued() -> SessionDocument:
    """Turn p1 runs, f1 and f2 wait."""
    return after(active(), follow_up("f1"), follow_up("f2"))


def promoted() -> SessionDocument:
    """Turn p1 runs and a1 replaces it as soon as it has settled; f1 waits behind."""
    return after(active(), follow_up("f1"), abort("a1"))


def asking() -> SessionDocument:
    """Turn p1 waits for the answer to gate g1."""
    return after(active(), events(gate(2, "g1", "p1")))


def resolving() -> SessionDocument:
    """Answer w1 is claimed for gate g1."""
    return after(asking(), answer("w1", "g1"))


def answered() -> SessionDocument:
    """Answer w1 won."""
    return after(resolving(), settled("w1"))


def corrected() -> SessionDocument:
    """Answer w1 was rejected, and w2 won."""
    rejected = after(resolving(), settled("w1", "rejected"))
    return after(rejected, answer("w2", "g1", "reject"), settled("w2"))


def deferred() -> SessionDocument:
    """Turn p1 is being delivered and gate g1 waits for the turn that it belongs to."""
    return after(delivering(), events(gate(1, "g1", "p1", turn_id="elsewhere")))


def done() -> SessionDocument:
    """Turn p1 completed and nothing runs."""
    return after(active(), events(ended(2, "p1")))


def reported() -> SessionDocument:
    """Turn p1 completed and left report r1 beside its own."""
    return after(done(), report("r1", of="p1"))


def stopping() -> SessionDocument:
    """Turn p1 runs and is to end."""
    return after(active(), stop("x1"))


def published() -> SessionDocument:
    """The first event is in the journal."""
    document = idle()
    return after(document, acknowledged(document))


def closing() -> SessionDocument:
    """A close is admitted."""
    return after(done(), close())


VALID = {
    each.__name__: each
    for each in (
        idle,
        delivering,
        active,
        queued,
        promoted,
        asking,
        resolving,
        answered,
        corrected,
        deferred,
        done,
        reported,
        stopping,
        published,
        closing,
    )
}
"""Every kind of valid document by name."""
