"""An agent runtime whose agents need no time: what is left of a figure is Muster's own."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from muster.domain.canonical import sha256_hex
from muster.domain.errors import RuntimeGone
from muster.domain.runtime import (
    AnswerCommand,
    AnswerReceipt,
    Closed,
    CloseRequest,
    DeliverReceipt,
    DeliverRequest,
    Endpoint,
    FinalResponse,
    FollowRequest,
    FollowResult,
    InterruptRequest,
    Launched,
    LaunchFound,
    LaunchRequest,
    LaunchState,
    RuntimeEvent,
    TurnEnded,
    TurnStarted,
)

_AT = "2026-01-01T00:00:00.000Z"
_SAID = "done"


@dataclass
class _Agent:
    launched: Launched
    log: list[RuntimeEvent] = field(default_factory=list)
    receipts: dict[str, DeliverReceipt] = field(default_factory=dict)
    gone: bool = False
    news: asyncio.Event = field(default_factory=asyncio.Event)


class InstantRuntime:
    """Takes every prompt and ends its turn at once; never asks."""

    def __init__(self) -> None:
        self._by_key: dict[str, _Agent] = {}
        self._by_session: dict[str, _Agent] = {}

    async def find_launch(self, request: LaunchRequest) -> LaunchFound:
        """What exists under the request's remote creation key."""
        agent = self._by_key.get(request.remote_create_key)
        if agent is None:
            return LaunchFound(state=LaunchState.ABSENT)
        if agent.gone:
            return LaunchFound(state=LaunchState.ENDED, evidence="it was closed")
        adopted = agent.launched.model_copy(update={"adopted": True})
        return LaunchFound(state=LaunchState.RUNNING, launched=adopted)

    async def launch(self, request: LaunchRequest) -> Launched:
        """An agent for each remote creation key."""
        if request.remote_create_key not in self._by_key:
            endpoint = Endpoint(
                runtime=request.runtime,
                namespace_id=request.namespace_id,
                session_id=request.session_id,
                incarnation=f"inc-{request.remote_create_key[-24:]}",
                endpoint_url=f"acp:instant/{request.session_id}",
                verifier=request.verifier,
            )
            agent = _Agent(Launched(endpoint=endpoint, used_key_id=request.verifier.key_id))
            self._by_key[request.remote_create_key] = agent
            self._by_session[request.session_id] = agent
        return self._by_key[request.remote_create_key].launched

    async def deliver(self, request: DeliverRequest) -> DeliverReceipt:
        """Take a prompt once for its key, and end its turn."""
        agent = self._agent(request.endpoint)
        if request.key not in agent.receipts:
            receipt = DeliverReceipt(
                command_id=f"cmd-{request.turn_id}", runtime_turn_id=f"rt-{request.turn_id}"
            )
            agent.receipts[request.key] = receipt
            self._run(agent, request.turn_id, receipt)
        return agent.receipts[request.key]

    def _run(self, agent: _Agent, turn_id: str, receipt: DeliverReceipt) -> None:
        agent.log += [
            TurnStarted(
                seq=len(agent.log) + 1,
                at=_AT,
                turn_id=turn_id,
                runtime_turn_id=receipt.runtime_turn_id,
                command_id=receipt.command_id,
            ),
            TurnEnded(
                seq=len(agent.log) + 2,
                at=_AT,
                turn_id=turn_id,
                runtime_turn_id=receipt.runtime_turn_id,
                stop_reason="end_turn",
                response=FinalResponse(text=_SAID, length=len(_SAID), sha256=sha256_hex(_SAID)),
            ),
        ]
        agent.news.set()

    async def follow(self, request: FollowRequest) -> FollowResult:
        """Events after the cursor, as soon as there are any."""
        agent = self._agent(request.endpoint)
        while len(agent.log) <= request.after and not agent.gone:
            agent.news.clear()
            try:
                await asyncio.wait_for(agent.news.wait(), request.wait_seconds)
            except TimeoutError:
                break
        page = tuple(agent.log[request.after : request.after + request.limit])
        end = request.after + len(page)
        return FollowResult(events=page, cursor=end, gone=agent.gone and end == len(agent.log))

    async def answer(self, request: AnswerCommand) -> AnswerReceipt:
        """No gate is ever open."""
        return AnswerReceipt(status="rejected", reason="nothing was asked")

    async def interrupt(self, request: InterruptRequest) -> None:
        """No turn ever runs."""

    async def close(self, request: CloseRequest) -> Closed:
        """End the agent."""
        agent = self._agent(request.endpoint)
        closed, agent.gone = Closed(already_gone=agent.gone), True
        agent.news.set()
        return closed

    def _agent(self, endpoint: Endpoint) -> _Agent:
        agent = self._by_session.get(endpoint.session_id)
        if agent is None:
            raise RuntimeGone(f"no agent was started at {endpoint.endpoint_url}")
        return agent
