"""A small runtime that keeps the contract: one turn at a time, a log without a gap, first answers.

It knows nothing of documents; it hears commands by key and writes its own log.
"""

from __future__ import annotations

import random
from typing import Any

from muster.domain.canonical import sha256_hex
from muster.domain.runtime import (
    AgentExited,
    AnswerReceipt,
    DeliverReceipt,
    FinalResponse,
    GateClosed,
    GateOpened,
    GateOption,
    RuntimeEvent,
    TurnEnded,
    TurnStarted,
)

OPTIONS = (
    GateOption(option_id="allow", name="Allow", kind="allow_once"),
    GateOption(option_id="reject", name="Reject", kind="reject_once"),
)
AT = "2026-01-01T00:00:00Z"


class SimulatedRuntime:
    """The agent's side; `gate_ids` are used up in order."""

    def __init__(self, rng: random.Random, gate_ids: list[str]) -> None:
        self._rng = rng
        self._gate_ids = list(gate_ids)
        self.log: list[RuntimeEvent] = []
        self.receipts: dict[str, DeliverReceipt] = {}
        self.answers: dict[str, AnswerReceipt] = {}
        self.running: str | None = None
        self.open_gates: list[str] = []
        self.ended = False

    def _say(self, event: type[RuntimeEvent], **fields: Any) -> None:
        self.log.append(event(seq=len(self.log) + 1, at=AT, **fields))

    def deliver(self, key: str, turn_id: str) -> DeliverReceipt | None:
        """The first receipt for this key; None when the runtime has ended."""
        if key in self.receipts:
            return self.receipts[key]
        if self.ended:
            return None
        if self.running is not None:
            self._end("cancelled")
        receipt = DeliverReceipt(command_id=f"cmd-{turn_id}", runtime_turn_id=f"rt-{turn_id}")
        self.receipts[key] = receipt
        self.running = turn_id
        self._say(
            TurnStarted,
            turn_id=turn_id,
            runtime_turn_id=receipt.runtime_turn_id,
            command_id=receipt.command_id,
        )
        return receipt

    def answer(self, key: str, gate_id: str, option_id: str | None) -> AnswerReceipt:
        """Accept the first answer to an open gate, reject what comes after."""
        if key not in self.answers:
            taken = gate_id in self.open_gates
            if taken:
                self._close_gate(gate_id, option_id)
            self.answers[key] = AnswerReceipt(status="accepted" if taken else "rejected")
        return self.answers[key]

    def interrupt(self) -> None:
        """Cancel what runs."""
        if self.running is not None:
            self._end("cancelled")

    def live(self) -> None:
        """Do something that an agent does by itself."""
        if self.running is None:
            if self._rng.random() < 0.04 and not self.ended:
                self._exit()
            return
        choice = self._rng.random()
        if choice < 0.45 and self._gate_ids:
            self._open_gate(self._gate_ids.pop(0))
        elif choice < 0.55 and self.open_gates:
            self._close_gate(self.open_gates[0], self._rng.choice(["allow", "reject", None]))
        elif choice < 0.97:
            reasons = ["end_turn", "end_turn", "max_tokens", "refusal", "error", "cancelled"]
            self._end(self._rng.choice(reasons))
        else:
            self._exit()

    def _open_gate(self, gate_id: str) -> None:
        self.open_gates.append(gate_id)
        self._say(
            GateOpened,
            gate_id=gate_id,
            turn_id=self.running,
            runtime_turn_id=f"rt-{self.running}",
            stage="tool_call",
            kind="permission",
            prompt="May I?",
            options=OPTIONS,
        )

    def _close_gate(self, gate_id: str, option_id: str | None) -> None:
        self.open_gates.remove(gate_id)
        self._say(
            GateClosed,
            gate_id=gate_id,
            turn_id=self.running,
            outcome="answered" if option_id else "cancelled",
            option_id=option_id,
        )

    def _end(self, stop_reason: str) -> None:
        for gate_id in list(self.open_gates):
            self._close_gate(gate_id, None)
        self._say(
            TurnEnded,
            turn_id=self.running,
            runtime_turn_id=f"rt-{self.running}",
            stop_reason=stop_reason,
            response=FinalResponse(text="done", length=4, sha256=sha256_hex("done")),
        )
        self.running = None

    def _exit(self) -> None:
        self.ended = True
        self.running = None
        self.open_gates = []
        self._say(AgentExited, exit_code=1)
