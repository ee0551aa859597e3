"""What a sidecar does when it is told something, and the life of its agent.

Between looking a key up, recording its receipt and beginning its effect there is no `await`:
two commands can't pass each other there.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import uuid
from collections.abc import Callable
from typing import Any

from muster.domain.errors import InvalidInput, RuntimeGone, RuntimeUnavailable, SessionClosing
from muster.runtimes.acp.agent_process import AgentProcess
from muster.runtimes.acp.commandlog import CommandLog, Receipt, command_digest
from muster.runtimes.acp.eventlog import Binding, EventLog
from muster.runtimes.acp.gates import Gates
from muster.runtimes.acp.processes import end_descendants
from muster.runtimes.acp.recorder import Recorder
from muster.runtimes.acp.turns import Turns
from muster.runtimes.signing import STATUS_TYPE, Signer

MAX_WAIT_SECONDS = 300.0
"""Of one look for events."""

Message = dict[str, Any]
_log = logging.getLogger("sidecar")


class Service:
    """The commands of one launch."""

    def __init__(
        self,
        *,
        binding: Binding,
        signer: Signer,
        events: EventLog,
        commands: CommandLog,
        gates: Gates,
        turns: Turns,
        recorder: Recorder,
        process: AgentProcess,
    ) -> None:
        self._binding = binding
        self._signer = signer
        self._events = events
        self._commands = commands
        self._gates = gates
        self._turns = turns
        self._recorder = recorder
        self._process = process
        self._watch: asyncio.Task[None] | None = None
        self.state = "starting"
        self.finished = asyncio.Event()
        """Set when the sidecar has nothing left to do."""

    @property
    def ending(self) -> bool:
        """Whether a close or a stop has begun."""
        return self.state in ("closing", "stopped")

    def begin(self) -> None:
        """The agent is ready for prompts."""
        if not self.ending:
            self.state = "ready"
            self._watch = asyncio.create_task(self._watch_agent())

    async def handle(self, message: Message) -> Message:
        """The answer to one message; a coded error if it is refused."""
        verb = message.get("verb")
        if verb == "status":
            return self._status(str(message.get("nonce", "")))
        if verb == "events":
            return await self._read_events(message)
        if verb == "close":
            return await self._close(message)
        effects: dict[str, Callable[[Message], Receipt]] = {
            "deliver": self._deliver,
            "answer": self._answer,
            "interrupt": self._interrupt,
        }
        if verb not in effects:
            raise InvalidInput(f"the sidecar knows no verb {verb!r}")
        found = self._commands.find(message["key"], command_digest(message))
        return found if found is not None else effects[verb](message)

    async def stop(self, reason: str) -> None:
        """End the agent without a close: the machine goes down or somebody ended the sidecar."""
        if self.ending:
            return
        self.state = "stopped"
        await self._end_agent(reason)
        self._recorder.record("agent.exited", exit_code=None, reason=reason)
        self.finished.set()

    def _status(self, nonce: str) -> Message:
        body = {
            **self._binding._asdict(),
            "nonce": nonce,
            "state": self.state,
            "pid": os.getpid(),
            "public_key": self._signer.verifier.public_key,
            "active": self._turns.active,
            "last": self._events.last,
        }
        envelope = self._signer.sign(STATUS_TYPE, json.dumps(body).encode())
        return {"envelope": envelope.decode()}

    async def _read_events(self, message: Message) -> Message:
        after, chunks = int(message["after"]), bool(message["include_chunks"])
        seconds = min(float(message["wait_seconds"]), MAX_WAIT_SECONDS)
        await self._events.wait_beyond(after, include_chunks=chunks, seconds=seconds)
        page = self._events.read(after, limit=int(message["limit"]), include_chunks=chunks)
        return {"events": page.lines, "cursor": page.cursor}

    def _deliver(self, message: Message) -> Receipt:
        self._check_ready()
        self._turns.check_idle()
        receipt = {
            "command_id": f"cmd-{uuid.uuid4().hex}",
            "runtime_turn_id": f"rt-{uuid.uuid4().hex}",
        }
        self._record(message, receipt)
        self._turns.start(message["turn_id"], text=message["text"], **receipt)
        return receipt

    def _answer(self, message: Message) -> Receipt:
        gate_id, option_id = message["gate_id"], message["option_id"]
        receipt = self._gates.admit(gate_id, option_id)
        answer = receipt.model_dump()
        self._record(message, answer)
        if receipt.status == "accepted":
            self._gates.settle(gate_id, option_id)
        return answer

    def _interrupt(self, message: Message) -> Receipt:
        self._record(message, {})
        self._turns.interrupt(message["runtime_turn_id"])
        return {}

    async def _close(self, message: Message) -> Receipt:
        if self._commands.find(message["key"], command_digest(message)) is None:
            self._record(message, {})
        if self.ending:
            await self.finished.wait()
            return {}
        self.state = "closing"
        await self._end_agent("the session was closed")
        self._recorder.record("endpoint.closed")
        await self._events.written()
        self.finished.set()
        return {}

    def _record(self, message: Message, receipt: Receipt) -> None:
        self._commands.record(message["key"], message["verb"], command_digest(message), receipt)

    def _check_ready(self) -> None:
        if self.state == "ready":
            return
        if self.state == "starting":
            raise RuntimeUnavailable("the agent is still starting: try again")
        if self.state == "closing":
            raise SessionClosing("the session's runtime is being closed")
        raise RuntimeGone("the session's agent has ended: close the session")

    async def _end_agent(self, reason: str) -> None:
        self._turns.interrupt()
        await self._process.end()
        await self._turns.settle(reason)
        await self._end_leftovers()
        if self._watch is not None:
            await self._watch

    async def _watch_agent(self) -> None:
        code = await self._process.wait()
        if self.state != "ready":
            return
        self.state = "agent_gone"
        _log.info("the agent ended with exit code %s", code)
        await self._turns.settle(f"the agent ended with exit code {code}")
        await self._end_leftovers()
        self._recorder.record("agent.exited", exit_code=code, reason=f"exit code {code}")

    async def _end_leftovers(self) -> None:
        """End what the agent started and left behind, wherever it moved itself."""
        spare = frozenset({os.getpid()})
        if not await asyncio.to_thread(end_descendants, os.getppid(), spare=spare):
            _log.error("some processes that the agent started can't be ended")
