"""A session as plain lists and dictionaries, written without looking at the transitions.

It answers each change with what a caller should hear, or the code of the refusal, and keeps what
a user could name: who runs, who waits, how each turn ended, what was asked and what won.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from muster.domain import changes as c
from muster.domain import runtime as r

OPEN = ("pending", "resolving")
TERMINAL = ("completed", "failed", "cancelled", "superseded")


class Refused(Exception):
    """The code that the caller should hear."""

    def __init__(self, code: str) -> None:
        super().__init__(code)
        self.code = code


@dataclass
class PlainSession:
    """One session; names are turn ids, gate ids and keys as the changes carry them."""

    session_id: str
    incarnation: str
    queue_limit: int
    question_ids: dict[str, str]
    """Gate id to question id and back, given by the test."""

    turns: dict[str, str] = field(default_factory=dict)
    acknowledged: set[str] = field(default_factory=set)
    queue: list[str] = field(default_factory=list)
    active: str | None = None
    replacement: dict[str, str] = field(default_factory=dict)
    starts: list[str] = field(default_factory=list)
    prompts: dict[str, dict[str, Any]] = field(default_factory=dict)
    questions: dict[str, dict[str, Any]] = field(default_factory=dict)
    gates: set[str] = field(default_factory=set)
    answers: dict[str, dict[str, Any]] = field(default_factory=dict)
    operations: dict[str, dict[str, Any]] = field(default_factory=dict)
    turn_reports: dict[str, list[str]] = field(default_factory=dict)
    filed_reports: set[str] = field(default_factory=set)
    events: Counter[tuple[str, str]] = field(default_factory=Counter)
    published: int = 0
    closing: dict[str, Any] | None = None
    gone: bool = False
    cursor: int = 0

    def __post_init__(self) -> None:
        self._event("session.created", self.session_id)

    def apply(self, change: c.Change) -> dict[str, Any]:
        """What the caller hears, as far as it can be compared; raises Refused."""
        handler = getattr(self, f"_{change.type}")
        answer: dict[str, Any] = handler(change) or {}
        return answer

    def _event(self, kind: str, entity: str) -> None:
        self.events[kind, entity] += 1

    # prompts

    def _accept_prompt(self, change: c.AcceptPrompt) -> dict[str, Any]:
        known = self.prompts.get(change.key_digest)
        if known is not None:
            if known["digest"] != change.request_digest:
                raise Refused("idempotency_conflict")
            return {"turn_id": known["turn"], "position": known["position"], "repeated": True}
        if self.closing:
            raise Refused("session_closing")
        if self.gone:
            raise Refused("runtime_gone")
        if change.operation == "turn.prompt" and (self.active or self.queue):
            raise Refused("active_turn_exists")
        if self.active and len(self.queue) >= self.queue_limit:
            raise Refused("queue_full")
        turn = "turn-" + change.key_digest[:32]
        self.turns[turn] = "queued"
        self._event("turn.queued", turn)
        position = 0
        if self.active is None:
            self._start(turn)
        elif change.operation == "turn.abort_and_prompt":
            self.queue.insert(0, turn)
            self.replacement[self.active] = turn
            position = 1
        else:
            self.queue.append(turn)
            position = len(self.queue)
        self.prompts[change.key_digest] = {
            "digest": change.request_digest,
            "turn": turn,
            "position": position,
        }
        return {"turn_id": turn, "position": position, "repeated": False}

    def _start(self, turn: str) -> None:
        if turn in self.queue:
            self.queue.remove(turn)
        self.active = turn
        self.turns[turn] = "delivering"
        self.starts.append(turn)

    def _taken(self, turn: str) -> None:
        if turn in self.acknowledged:
            return
        self.acknowledged.add(turn)
        if self.turns[turn] not in TERMINAL:
            self._event("turn.started", turn)
        if self.turns[turn] == "delivering":
            self.turns[turn] = "active"

    def _record_delivery(self, change: c.RecordDelivery) -> None:
        self._taken(change.turn_id)

    # the runtime's log

    def _record_events(self, change: c.RecordEvents) -> None:
        for event in change.events:
            if event.seq == self.cursor + 1:
                self.cursor += 1
                self._seen(event)
        if change.gone:
            self._runtime_gone()

    def _seen(self, event: r.RuntimeEvent) -> None:
        if isinstance(event, r.TurnStarted):
            self._taken(event.turn_id)
        elif isinstance(event, r.GateOpened):
            self._gate_opened(event)
        elif isinstance(event, r.GateClosed):
            self._gate_closed(event)
        elif isinstance(event, r.TurnEnded):
            self._turn_ended(event)
        elif isinstance(event, r.AgentExited):
            self._runtime_gone()

    def _gate_opened(self, event: r.GateOpened) -> None:
        if event.gate_id in self.gates:
            return
        self.gates.add(event.gate_id)
        if self.turns[event.turn_id] in TERMINAL:
            return
        self.turns[event.turn_id] = "waiting_for_answer"
        self.questions[event.gate_id] = {"turn": event.turn_id, "status": "pending", "won": None}
        self._event("question.opened", self.question_ids[event.gate_id])

    def _gate_closed(self, event: r.GateClosed) -> None:
        question = self.questions.get(event.gate_id)
        if question is None or question["status"] not in OPEN:
            return
        for claim in self._claims(event.gate_id):
            same = claim["option"] == event.option_id
            claim["status"] = "accepted" if same else "rejected"
            if same:
                self._answered(event.gate_id, event.option_id)
                return
        if event.outcome == "answered":
            self._answered(event.gate_id, event.option_id)
        else:
            self._cancelled(event.gate_id)

    def _claims(self, gate: str) -> list[dict[str, Any]]:
        return [
            each
            for each in self.answers.values()
            if each["gate"] == gate and each["status"] == "claimed"
        ]

    def _answered(self, gate: str, option: str | None) -> None:
        self.questions[gate].update(status="answered", won=option)
        self._event("question.answered", self.question_ids[gate])
        self._go_on(self.questions[gate]["turn"])

    def _cancelled(self, gate: str) -> None:
        self.questions[gate]["status"] = "stale"
        self._event("question.cancelled", self.question_ids[gate])
        self._go_on(self.questions[gate]["turn"])

    def _go_on(self, turn: str) -> None:
        still = any(
            each["turn"] == turn and each["status"] in OPEN for each in self.questions.values()
        )
        if not still and self.turns[turn] == "waiting_for_answer":
            self.turns[turn] = "active"

    def _turn_ended(self, event: r.TurnEnded) -> None:
        turn = event.turn_id
        if self.turns[turn] in TERMINAL:
            return
        self._taken(turn)
        status = {"refusal": "failed", "error": "failed", "cancelled": "cancelled"}.get(
            event.stop_reason, "completed"
        )
        if status == "cancelled" and self.replacement.get(turn) in self.queue:
            status = "superseded"
        elif status == "cancelled" and any(
            each.get("stops") == turn and each["reason"] == "question_timeout"
            for each in self.operations.values()
        ):
            status = "failed"
        self._end(turn, status)

    def _end(self, turn: str, status: str, *, start_next: bool = True) -> None:
        for gate, question in self.questions.items():
            if question["turn"] == turn and question["status"] in OPEN:
                for claim in self._claims(gate):
                    claim["status"] = "rejected"
                self._cancelled(gate)
        self.turns[turn] = status
        self.turn_reports.setdefault(turn, []).append(status)
        self._event(f"turn.{status}", turn)
        for operation in self.operations.values():
            if operation.get("stops") == turn and operation["status"] == "requested":
                operation["status"] = status
        if turn in self.queue:
            self.queue.remove(turn)
        if self.active == turn:
            self.active = None
            chosen = self.replacement.get(turn)
            if start_next and self.queue:
                self._start(chosen if chosen in self.queue and chosen else self.queue[0])

    def _end_queue(self, status: str) -> list[str]:
        ended = list(self.queue)
        for turn in ended:
            self._end(turn, status)
        return ended

    def _runtime_gone(self) -> None:
        if self.gone:
            return
        self.gone = True
        self._end_queue("failed")
        if self.active:
            self._end(self.active, "failed")
        if not self.closing:
            self._event("session.errored", self.session_id)

    def _fail_turn(self, change: c.FailTurn) -> None:
        if change.runtime_gone:
            self._end_queue("failed")
        if self.turns[change.turn_id] not in TERMINAL:
            self._end(change.turn_id, "failed")
        if change.runtime_gone:
            self._runtime_gone()

    # answers

    def _claim_answer(self, change: c.ClaimAnswer) -> dict[str, Any]:
        known = self.answers.get(change.key_digest)
        if known is not None:
            if known["digest"] != change.request_digest:
                raise Refused("idempotency_conflict")
            return {"status": known["status"], "option_id": known["option"], "repeated": True}
        gate = self.question_ids.get(change.question_id, "")
        question = self.questions.get(gate)
        if question is None:
            raise Refused("resource_gone")
        if question["status"] in ("answered", "resolving"):
            raise Refused(f"already_answered:{question['won']}")
        if question["status"] == "stale":
            raise Refused("question_cancelled")
        if change.option_id not in (None, "allow", "reject"):
            raise Refused("invalid_input")
        self.answers[change.key_digest] = {
            "digest": change.request_digest,
            "gate": gate,
            "option": change.option_id,
            "status": "claimed",
        }
        question.update(status="resolving", won=change.option_id)
        return {"status": "claimed", "option_id": change.option_id, "repeated": False}

    def _settle_answer(self, change: c.SettleAnswer) -> None:
        claim = self.answers[change.key_digest]
        if claim["status"] != "claimed":
            return
        claim["status"] = change.receipt.status
        if change.receipt.status == "accepted":
            self._answered(claim["gate"], claim["option"])
        else:
            self.questions[claim["gate"]].update(status="pending", won=None)

    # operations

    def _known(self, name: str, digest: str) -> dict[str, Any] | None:
        known = self.operations.get(name)
        if known is not None and known["digest"] != digest:
            raise Refused("idempotency_conflict")
        return known

    def _request_stop(self, change: c.RequestStop) -> dict[str, Any]:
        name = "stop-" + change.key_digest[:32]
        known = self._known(name, change.request_digest)
        if known is None:
            applies = change.turn_id in (None, self.active)
            cancelled = [] if change.keep_queue or not applies else self._end_queue("cancelled")
            running = self.active if applies else None
            known = self.operations[name] = {
                "digest": change.request_digest,
                "stops": running,
                "reason": change.reason,
                "cancelled": cancelled,
                "status": "requested" if running else "nothing_running",
            }
            return {"status": known["status"], "cancelled": cancelled, "repeated": False}
        return {"status": known["status"], "cancelled": known["cancelled"], "repeated": True}

    def _cancel_turn(self, change: c.CancelTurn) -> dict[str, Any]:
        name = "cancel-" + change.key_digest[:32]
        known = self._known(name, change.request_digest)
        if known is not None:
            return {"status": known["status"], "repeated": True}
        status = self.turns.get(change.turn_id)
        if status is None:
            raise Refused("resource_gone")
        if status != "queued" and status not in TERMINAL:
            raise Refused("active_turn_exists")
        if status == "queued":
            self._end(change.turn_id, "cancelled")
        status = self.turns[change.turn_id]
        self.operations[name] = {"digest": change.request_digest, "status": status}
        return {"status": status, "repeated": False}

    def _file_report(self, change: c.FileReport) -> dict[str, Any]:
        if self._known(change.operation_id, change.request_digest) is not None:
            return {"repeated": True}
        if self.closing:
            raise Refused("session_closing")
        if change.turn_id is not None and change.turn_id not in self.turns:
            raise Refused("resource_gone")
        self.operations[change.operation_id] = {"digest": change.request_digest, "status": "filed"}
        self.filed_reports.add(change.operation_id)
        return {"repeated": False}

    # the journal and the close

    def _acknowledge_events(self, change: c.AcknowledgeEvents) -> None:
        self.published = max(
            self.published, max((each.journal_seq for each in change.acknowledgements), default=0)
        )

    def _admit_close(self, change: c.AdmitClose) -> dict[str, Any]:
        if change.incarnation != self.incarnation:
            raise Refused("endpoint_stale")
        asked = (change.key_digest, change.request_digest)
        if self.closing:
            if self.closing["asked"] != asked:
                raise Refused("idempotency_conflict")
            return {"settled": self.closing["settled"]}
        if self.active and not change.force:
            raise Refused("active_turn_exists")
        settled = self._end_queue("cancelled")
        if self.active:
            settled.append(self.active)
            self._end(self.active, "cancelled")
        self.closing = {"asked": asked, "settled": sorted(settled)}
        self._event("session.closing", self.session_id)
        return {"settled": self.closing["settled"]}
