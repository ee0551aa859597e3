"""The sidecar's side of the Agent Client Protocol, reduced to what a turn needs."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from dataclasses import dataclass
from typing import Any, Protocol, cast

from muster.domain.runtime import GateOption
from muster.runtimes.acp.agent_process import AgentProcess
from muster.runtimes.acp.gates import Question
from muster.runtimes.acp.sdk import acp, schema

_CLOSE_SECONDS = 2.0
_log = logging.getLogger("sidecar")


class Listener(Protocol):
    """Who hears what the agent says and asks."""

    def heard(self, text: str) -> None:
        """A piece of the agent's message."""

    async def asked(self, question: Question) -> str | None:
        """A question; answers with an option's id, or None for cancelled."""


@dataclass(frozen=True)
class PromptOutcome:
    """How the agent ended a prompt."""

    stop_reason: str
    usage: dict[str, Any] | None


class AgentLink:
    """An initialized connection with one ACP session."""

    def __init__(self, connection: acp.Agent, session_id: str) -> None:
        self._connection = connection
        self.session_id = session_id

    @classmethod
    async def open(
        cls, process: AgentProcess, listener: Listener, cwd: str, model: str | None
    ) -> AgentLink:
        """Initialize the agent and open its session; raises what the library raises."""
        client = cast(acp.Client, _Client(listener))
        connection = cast(acp.Agent, acp.connect_to_agent(client, *process.streams))
        await connection.initialize(
            protocol_version=acp.PROTOCOL_VERSION,
            client_info=schema.Implementation(name="muster", version="1"),
        )
        session = await connection.new_session(cwd=cwd, mcp_servers=[])
        if model is not None:
            await _choose_model(connection, session, model)
        return cls(connection, session.session_id)

    async def prompt(self, text: str) -> PromptOutcome:
        """Run one prompt; RequestError if the agent refuses it, ConnectionError if it ends."""
        blocks: list[Any] = [schema.TextContentBlock(type="text", text=text)]
        answer = await self._connection.prompt(session_id=self.session_id, prompt=blocks)
        usage = answer.usage.model_dump(exclude_none=True) if answer.usage else None
        return PromptOutcome(answer.stop_reason, usage)

    async def cancel(self) -> None:
        """Ask the agent to end the running prompt."""
        await self._connection.cancel(session_id=self.session_id)

    async def close(self) -> None:
        """Give up the connection; whoever waits for the agent gets a ConnectionError."""
        with contextlib.suppress(TimeoutError, ConnectionError):
            async with asyncio.timeout(_CLOSE_SECONDS):
                await cast(Any, self._connection).close()


class _Client:
    """Answers the agent's requests; what isn't here, the library refuses as unknown."""

    def __init__(self, listener: Listener) -> None:
        self._listener = listener

    async def session_update(self, session_id: str, update: Any, **_: Any) -> None:
        content = getattr(update, "content", None)
        if isinstance(update, schema.AgentMessageChunk) and isinstance(
            content, schema.TextContentBlock
        ):
            self._listener.heard(content.text)

    async def request_permission(
        self,
        session_id: str,
        tool_call: schema.ToolCallUpdate,
        options: list[schema.PermissionOption],
        **_: Any,
    ) -> schema.RequestPermissionResponse:
        chosen = await self._listener.asked(_question(tool_call, options))
        if chosen is None:
            denied = schema.DeniedOutcome(outcome="cancelled")
            return schema.RequestPermissionResponse(outcome=denied)
        allowed = schema.AllowedOutcome(outcome="selected", option_id=chosen)
        return schema.RequestPermissionResponse(outcome=allowed)


def _question(tool_call: schema.ToolCallUpdate, options: list[schema.PermissionOption]) -> Question:
    parts = [tool_call.title or "", *map(_content_text, tool_call.content or [])]
    if not tool_call.content and tool_call.raw_input is not None:
        parts.append(json.dumps(tool_call.raw_input, ensure_ascii=False, default=str))
    return Question(
        kind=tool_call.kind or "other",
        prompt="\n\n".join(filter(None, parts)),
        options=tuple(
            GateOption(option_id=each.option_id, name=each.name, kind=each.kind) for each in options
        ),
    )


def _content_text(content: Any) -> str:
    if isinstance(content, schema.FileEditToolCallContent):
        return f"edits {content.path}"
    return str(getattr(getattr(content, "content", None), "text", ""))


async def _choose_model(
    connection: acp.Agent, session: schema.NewSessionResponse, model: str
) -> None:
    """Set the model where the agent offers the choice; an agent without one keeps its own."""
    offered = [each for each in session.config_options or [] if each.category == "model"]
    if not offered:
        _log.warning("the agent offers no choice of model; %s isn't set", model)
        return
    await connection.set_config_option(
        config_id=offered[0].id, session_id=session.session_id, value=model
    )
