"""An agent runtime in memory: a second implementation of the protocol, for tests that need time.

A prompt's text says what its turn does: `ask` asks first and ends as the answer says, `hold` runs
until it is interrupted, `refuse` ends with a refusal, anything else ends at once.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from muster.domain.canonical import sha256_hex
from muster.domain.errors import RuntimeGone, RuntimeUnavailable, TerminalUncertain
from muster.domain.runtime import (
    AnswerCommand,
    AnswerReceipt,
    Closed,
    CloseRequest,
    DeliverReceipt,
    DeliverRequest,
    Endpoint,
    EndpointClosed,
    FinalResponse,
    FollowRequest,
    FollowResult,
    GateClosed,
    GateOpened,
    GateOption,
    InterruptRequest,
    Launched,
    LaunchFound,
    LaunchRequest,
    LaunchState,
    RuntimeEvent,
    TurnEnded,
    TurnStarted,
)

AT = "2026-01-01T00:00:00Z"
OPTIONS = (
    GateOption(option_id="allow", name="Allow", kind="allow_once"),
    GateOption(option_id="reject", name="Reject", kind="reject_once"),
)


@dataclass
class Agent:
    """One agent: its log, and the first answer under each key."""

    launched: Launched
    log: list[RuntimeEvent] = field(default_factory=list)
    prompts: list[str] = field(default_factory=list)
    """The texts that it took, in order."""
    receipts: dict[str, DeliverReceipt] = field(default_factory=dict)
    answers: dict[str, AnswerReceipt] = field(default_factory=dict)
    running: str | None = None
    gate: str | None = None
    gone: bool = False
    news: asyncio.Condition = field(default_factory=asyncio.Condition)

    def say(self, event: type[Any], **fields: Any) -> None:
        """Append to the log; whoever follows hears it when the call is over."""
        self.log.append(event(seq=len(self.log) + 1, at=AT, **fields))

    def begin(self, turn_id: str, text: str) -> None:
        """Run a turn as far as its text goes."""
        self.prompts.append(text)
        self.running = turn_id
        self.say(
            TurnStarted,
            turn_id=turn_id,
            runtime_turn_id=f"rt-{turn_id}",
            command_id=f"cmd-{turn_id}",
        )
        if text == "ask":
            self._ask(turn_id)
        elif text != "hold":
            self.end("refusal" if text == "refuse" else "end_turn")

    def _ask(self, turn_id: str) -> None:
        self.gate = f"gate-{len(self.log)}"
        self.say(
            GateOpened,
            gate_id=self.gate,
            turn_id=turn_id,
            runtime_turn_id=f"rt-{turn_id}",
            stage="tool_call",
            kind="execute",
            prompt="May I?",
            options=OPTIONS,
        )

    def settle(self, option_id: str | None) -> None:
        """Close the open gate and go on as its answer says."""
        self._close_gate(option_id)
        self.end("end_turn" if option_id == "allow" else "refusal")

    def _close_gate(self, option_id: str | None) -> None:
        outcome = "answered" if option_id else "cancelled"
        self.say(
            GateClosed,
            gate_id=self.gate,
            turn_id=self.running,
            outcome=outcome,
            option_id=option_id,
        )
        self.gate = None

    def end(self, stop_reason: str) -> None:
        """End the running turn."""
        if self.gate is not None:
            self._close_gate(None)
        said = f"{stop_reason} of {self.prompts[-1]}"
        self.say(
            TurnEnded,
            turn_id=self.running,
            runtime_turn_id=f"rt-{self.running}",
            stop_reason=stop_reason,
            response=FinalResponse(text=said, length=len(said), sha256=sha256_hex(said)),
        )
        self.running = None


class SimulatedRuntime:
    """Agents by their remote creation key.

    `unavailable` says how often a command is refused before it begins, by the command's name, and
    `unknown` how often nobody can say whether it was carried out;
    `calls` counts what was asked for.
    """

    def __init__(self) -> None:
        self.agents: dict[str, Agent] = {}
        self.unavailable: Counter[str] = Counter()
        self.unknown: Counter[str] = Counter()
        self.calls: Counter[str] = Counter()

    def agent(self, session_id: str) -> Agent:
        """The agent that a session had last."""
        found = [
            each for each in self.agents.values() if each.launched.endpoint.session_id == session_id
        ]
        return found[-1]

    async def find_launch(self, request: LaunchRequest) -> LaunchFound:
        """What exists under the request's remote creation key."""
        agent = self.agents.get(request.remote_create_key)
        if agent is None:
            return LaunchFound(state=LaunchState.ABSENT)
        if agent.gone:
            return LaunchFound(state=LaunchState.ENDED, evidence="it was closed")
        adopted = agent.launched.model_copy(update={"adopted": True})
        return LaunchFound(state=LaunchState.RUNNING, launched=adopted)

    async def launch(self, request: LaunchRequest) -> Launched:
        """Start an agent once for its remote creation key."""
        self._arrives("launch")
        if request.remote_create_key not in self.agents:
            endpoint = Endpoint(
                runtime=request.runtime,
                namespace_id=request.namespace_id,
                session_id=request.session_id,
                incarnation=f"inc-{request.remote_create_key[-24:]}",
                endpoint_url=f"acp:simulated/{request.session_id}",
                verifier=request.verifier,
            )
            launched = Launched(endpoint=endpoint, used_key_id=request.verifier.key_id)
            self.agents[request.remote_create_key] = Agent(launched)
        return self.agents[request.remote_create_key].launched

    async def deliver(self, request: DeliverRequest) -> DeliverReceipt:
        """Take a prompt once for its key."""
        self._arrives("deliver")
        agent = self._living(request.endpoint)
        if request.key not in agent.receipts:
            agent.receipts[request.key] = DeliverReceipt(
                command_id=f"cmd-{request.turn_id}", runtime_turn_id=f"rt-{request.turn_id}"
            )
            async with agent.news:
                agent.begin(request.turn_id, request.text)
                agent.news.notify_all()
        return agent.receipts[request.key]

    async def follow(self, request: FollowRequest) -> FollowResult:
        """Events after the cursor, as soon as there are any."""
        agent = self._of(request.endpoint)

        def is_news() -> bool:
            return len(agent.log) > request.after or agent.gone

        async with agent.news:
            try:
                await asyncio.wait_for(agent.news.wait_for(is_news), request.wait_seconds)
            except TimeoutError:
                return FollowResult(cursor=request.after)
        page = tuple(agent.log[request.after : request.after + request.limit])
        end = request.after + len(page)
        return FollowResult(events=page, cursor=end, gone=agent.gone and end == len(agent.log))

    async def answer(self, request: AnswerCommand) -> AnswerReceipt:
        """Take the first answer to an open gate, reject what comes after."""
        self._arrives("answer")
        agent = self._living(request.endpoint)
        if request.key not in agent.answers:
            taken = agent.gate == request.gate_id
            agent.answers[request.key] = AnswerReceipt(status="accepted" if taken else "rejected")
            if taken:
                async with agent.news:
                    agent.settle(request.option_id)
                    agent.news.notify_all()
        return agent.answers[request.key]

    async def interrupt(self, request: InterruptRequest) -> None:
        """Cancel what runs, if that is the turn that is meant."""
        self._arrives("interrupt")
        agent = self._living(request.endpoint)
        meant = request.runtime_turn_id in (None, f"rt-{agent.running}")
        if agent.running is not None and meant:
            async with agent.news:
                agent.end("cancelled")
                agent.news.notify_all()

    async def close(self, request: CloseRequest) -> Closed:
        """End the agent; one that has ended is already gone."""
        self._arrives("close")
        agent = self._of(request.endpoint)
        if agent.gone:
            return Closed(already_gone=True)
        async with agent.news:
            agent.say(EndpointClosed)
            agent.gone = True
            agent.news.notify_all()
        return Closed()

    def _arrives(self, command: str) -> None:
        self.calls[command] += 1
        if self.unavailable[command] > 0:
            self.unavailable[command] -= 1
            raise RuntimeUnavailable(f"{command} is refused for now; trying again helps")
        if self.unknown[command] > 0:
            self.unknown[command] -= 1
            raise TerminalUncertain(f"the reply to {command} was lost")

    def _of(self, endpoint: Endpoint) -> Agent:
        for agent in self.agents.values():
            known = agent.launched.endpoint
            if (known.session_id, known.incarnation) == (endpoint.session_id, endpoint.incarnation):
                return agent
        raise RuntimeGone(f"no agent was started at {endpoint.endpoint_url}")

    def _living(self, endpoint: Endpoint) -> Agent:
        agent = self._of(endpoint)
        if agent.gone:
            raise RuntimeGone(f"the agent at {endpoint.endpoint_url} has ended")
        return agent
