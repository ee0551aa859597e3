"""The agent's questions: each is open until one answer, a cancel or the end of its turn."""

from __future__ import annotations

import asyncio
import uuid
from dataclasses import dataclass, field

from muster.domain.errors import InvalidInput
from muster.domain.runtime import AnswerReceipt, GateOption
from muster.runtimes.acp.recorder import Recorder

PROMPT_BYTES = 8 * 1024
"""How much of a question travels."""

STAGE = "permission"
"""Agents ask in one place only: before a tool call."""


@dataclass(frozen=True)
class Question:
    """What an agent asks, as the Agent Client Protocol types it."""

    kind: str
    prompt: str
    options: tuple[GateOption, ...]


@dataclass
class _Gate:
    turn_id: str
    offered: tuple[str, ...]
    decision: asyncio.Future[str | None] = field(
        default_factory=lambda: asyncio.get_running_loop().create_future()
    )

    def standing(self) -> str:
        option = self.decision.result()
        return f"it was answered with {option}" if option else "it was cancelled"


class Gates:
    """The gates of one launch, closed ones included."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._gates: dict[str, _Gate] = {}

    async def ask(self, turn_id: str, runtime_turn_id: str, question: Question) -> str | None:
        """Open a gate and wait: the chosen option, or None when it is cancelled."""
        gate_id = f"gate-{uuid.uuid4().hex}"
        offered = tuple(option.option_id for option in question.options)
        gate = self._gates[gate_id] = _Gate(turn_id, offered)
        self._recorder.record(
            "gate.opened",
            gate_id=gate_id,
            turn_id=turn_id,
            runtime_turn_id=runtime_turn_id,
            stage=STAGE,
            kind=question.kind,
            prompt=question.prompt.encode()[:PROMPT_BYTES].decode(errors="ignore"),
            options=[option.model_dump() for option in question.options],
        )
        return await asyncio.shield(gate.decision)

    def admit(self, gate_id: str, option_id: str | None) -> AnswerReceipt:
        """What an answer would hear now; InvalidInput for an option that the gate hasn't."""
        gate = self._gates.get(gate_id)
        if gate is None:
            return AnswerReceipt(status="rejected", reason=f"there is no gate {gate_id}")
        if gate.decision.done():
            return AnswerReceipt(status="rejected", reason=gate.standing())
        if option_id is not None and option_id not in gate.offered:
            raise InvalidInput(
                f"gate {gate_id} has no option {option_id!r}: "
                f"choose one of {', '.join(gate.offered)}"
            )
        return AnswerReceipt(status="accepted")

    def settle(self, gate_id: str, option_id: str | None) -> None:
        """Close an open gate with an option, or with None as cancelled."""
        gate = self._gates[gate_id]
        self._recorder.record(
            "gate.closed",
            gate_id=gate_id,
            turn_id=gate.turn_id,
            outcome="cancelled" if option_id is None else "answered",
            option_id=option_id,
        )
        gate.decision.set_result(option_id)

    def cancel_open(self) -> None:
        """Close every open gate as cancelled."""
        for gate_id in [key for key, gate in self._gates.items() if not gate.decision.done()]:
            self.settle(gate_id, None)
