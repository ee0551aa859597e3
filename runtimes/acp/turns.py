"""One turn at a time: from the prompt to the event that says how it ended.

A turn always ends with its own `turn.ended`: by the agent's stop reason, by an agent that died,
or by a cancel, which an agent that doesn't listen pays for with its process.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from muster.domain.errors import ActiveTurnExists
from muster.runtimes.acp import layout
from muster.runtimes.acp.agent_link import AgentLink
from muster.runtimes.acp.agent_process import AgentProcess
from muster.runtimes.acp.gates import Gates, Question
from muster.runtimes.acp.recorder import Recorder
from muster.runtimes.acp.response import RESPONSE_LIMIT_BYTES, ResponseBuffer
from muster.runtimes.acp.sdk import acp

_DRAIN_SECONDS = 1.0
_GIT_SECONDS = 5.0
_ERROR_CHARACTERS = 2000
_log = logging.getLogger("sidecar")


@dataclass(frozen=True)
class Place:
    """Where the agent works, where its launch keeps files, and how patient it is with it."""

    cwd: str
    folder: Path
    reference: PurePosixPath
    """The launch folder under the namespace's root, as readers name it."""
    environment: Mapping[str, str]
    cancel_grace_seconds: float
    """How long an agent may take to end a cancelled turn before it is ended itself."""


@dataclass
class _Turn:
    turn_id: str
    runtime_turn_id: str
    response: ResponseBuffer
    cancelling: bool = False
    error: str | None = None

    def broken_off(self) -> str:
        """The stop reason of a prompt that the agent didn't answer."""
        return "cancelled" if self.cancelling else "error"


class Turns:
    """Runs the prompts of one agent; it is the agent link's listener."""

    def __init__(self, place: Place, recorder: Recorder, gates: Gates) -> None:
        self._place = place
        self._recorder = recorder
        self._gates = gates
        self._active: _Turn | None = None
        self._task: asyncio.Task[None] | None = None
        self._cancel_task: asyncio.Task[None] | None = None
        self._process: AgentProcess | None = None
        self._link: AgentLink | None = None

    def attach(self, process: AgentProcess, link: AgentLink) -> None:
        """Name the agent that turns run on."""
        self._process, self._link = process, link

    @property
    def active(self) -> str | None:
        """The runtime id of the running turn."""
        return self._active.runtime_turn_id if self._active else None

    def check_idle(self) -> None:
        """ActiveTurnExists while a turn runs."""
        if self._active is not None:
            raise ActiveTurnExists(
                f"turn {self._active.turn_id} runs: wait for its end or interrupt it"
            )

    def start(self, turn_id: str, runtime_turn_id: str, command_id: str, text: str) -> None:
        """Record the turn and begin it; the caller has checked that none runs."""
        path = self._place.folder / layout.RESPONSES / turn_id
        reference = str(self._place.reference / layout.RESPONSES / turn_id)
        self._active = _Turn(turn_id, runtime_turn_id, ResponseBuffer(path, reference))
        self._recorder.record(
            "turn.started", turn_id=turn_id, runtime_turn_id=runtime_turn_id, command_id=command_id
        )
        self._task = asyncio.create_task(self._run(self._active, text))

    def interrupt(self, runtime_turn_id: str | None = None) -> None:
        """Cancel the running turn, if it is the one named; its questions are cancelled too."""
        turn = self._active
        if turn is None or turn.cancelling or runtime_turn_id not in (None, self.active):
            return
        turn.cancelling = True
        self._gates.cancel_open()
        self._cancel_task = asyncio.create_task(self._cancel(turn))

    async def settle(self, reason: str) -> None:
        """After the agent has ended: end the turn that it left, with `reason` as its error."""
        turn, link = self._active, self._link
        if turn is not None and self._task is not None:
            turn.error = turn.error or reason
            await asyncio.wait({self._task}, timeout=_DRAIN_SECONDS)
        self._gates.cancel_open()
        if link is not None:
            await link.close()
        if self._task is not None:
            await self._task

    def heard(self, text: str) -> None:
        """Take a piece of the agent's message into the turn and its stream."""
        if self._active is not None and self._active.response.add(text):
            self._recorder.output(self._active.turn_id, text)

    async def asked(self, question: Question) -> str | None:
        """Open a gate; without a turn, or in one that is being cancelled, there is none."""
        turn = self._active
        if turn is None or turn.cancelling:
            return None
        return await self._gates.ask(turn.turn_id, turn.runtime_turn_id, question)

    async def _run(self, turn: _Turn, text: str) -> None:
        head_before = await self._head()
        stop_reason, usage = await self._prompt(turn, text)
        response = await asyncio.to_thread(turn.response.finish)
        head_after = await self._head()
        self._gates.cancel_open()
        self._recorder.record(
            "turn.ended",
            turn_id=turn.turn_id,
            runtime_turn_id=turn.runtime_turn_id,
            stop_reason=stop_reason,
            response=response.model_dump(),
            usage=usage,
            error=_error_of(turn, stop_reason),
            head_before=head_before,
            head_after=head_after,
        )
        self._active = None
        if self._cancel_task is not None:
            self._cancel_task.cancel()

    async def _prompt(self, turn: _Turn, text: str) -> tuple[str, dict[str, Any] | None]:
        if turn.cancelling or self._link is None:
            return "cancelled", None
        try:
            outcome = await self._link.prompt(text)
        except (acp.RequestError, OSError, ValueError) as error:
            lost = isinstance(error, ConnectionError)
            turn.error = turn.error or (await self._why_lost() if lost else str(error))
            return turn.broken_off(), None
        return outcome.stop_reason, outcome.usage

    async def _why_lost(self) -> str:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_DRAIN_SECONDS):
                if self._process is not None:
                    return (
                        f"the agent ended during the turn (exit code {await self._process.wait()})"
                    )
        return "the agent closed its connection during the turn"

    async def _cancel(self, turn: _Turn) -> None:
        if self._link is None or self._process is None:
            return
        with contextlib.suppress(TimeoutError, ConnectionError, OSError):
            async with asyncio.timeout(self._place.cancel_grace_seconds):
                await self._link.cancel()
                if self._task is not None:
                    await asyncio.shield(self._task)
                return
        if self._active is turn:
            turn.error = "the agent didn't end the turn when it was cancelled and was ended"
            self._process.kill()

    async def _head(self) -> str | None:
        try:
            git = await asyncio.create_subprocess_exec(
                "git", "rev-parse", "--verify", "--quiet", "HEAD",
                cwd=self._place.cwd,
                env={**self._place.environment, "GIT_OPTIONAL_LOCKS": "0"},
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.DEVNULL,
            )  # fmt: skip
        except OSError:
            return None
        try:
            async with asyncio.timeout(_GIT_SECONDS):
                output, _ = await git.communicate()
        except TimeoutError:
            git.kill()
            return None
        return output.decode().strip() or None


def _error_of(turn: _Turn, stop_reason: str) -> str | None:
    if turn.error is not None and stop_reason in ("error", "cancelled"):
        return turn.error[:_ERROR_CHARACTERS]
    if turn.response.cut:
        return f"the response was cut at {RESPONSE_LIMIT_BYTES} bytes"
    return None
