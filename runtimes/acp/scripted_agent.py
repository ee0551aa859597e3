"""A small real agent: `python -m muster.runtimes.acp.scripted_agent`.

It speaks the Agent Client Protocol on its standard streams. Each prompt is a shell script, run
in the session's working directory. Before the first command of a prompt it asks permission;
`allow_always` holds for the session. A prompt whose first line is `#!muster no-permission` runs
without the question. Output is streamed as it comes; the turn ends with `end_turn`, after a line
that names the exit status if it isn't 0; with `refusal` if permission was rejected; with
`cancelled` if it was cancelled, which ends the script and its process group.
"""

from __future__ import annotations

import asyncio
import codecs
import contextlib
import os
import shutil
import signal
import uuid
from dataclasses import dataclass
from typing import Any

from muster.runtimes.acp.processes import die_with_parent, exit_code_of
from muster.runtimes.acp.sdk import acp, schema

NO_PERMISSION = "#!muster no-permission"
"""A first line that lets a prompt run without being asked for."""

_SHOWN_CHARACTERS = 4000

MESSAGE_LIMIT_BYTES = 400 * 1024 * 1024
"""As the sidecar's: the longest prompt fits, however JSON writes it."""

_STOP_SECONDS = 1.0
_DRAIN_SECONDS = 0.3
_OPTIONS = (
    ("allow_once", "Run it"),
    ("allow_always", "Run it, and later ones without asking"),
    ("reject_once", "Don't run it"),
    ("reject_always", "Don't run it, nor later ones"),
)


@dataclass
class _Session:
    cwd: str
    remembered: bool | None = None
    """What `allow_always` or `reject_always` decided."""
    script: asyncio.subprocess.Process | None = None
    cancelled: bool = False


class ScriptedAgent:
    """The agent's side of the protocol."""

    def __init__(self) -> None:
        self._client: Any = None
        self._sessions: dict[str, _Session] = {}

    def on_connect(self, conn: acp.Client) -> None:
        """Called by the library with the client to talk to."""
        self._client = conn

    async def initialize(self, protocol_version: int, **_: Any) -> acp.InitializeResponse:
        """Agree on the protocol's version."""
        return acp.InitializeResponse(
            protocol_version=min(protocol_version, acp.PROTOCOL_VERSION),
            agent_info=schema.Implementation(name="muster-scripted-agent", version="1"),
        )

    async def new_session(self, cwd: str, **_: Any) -> acp.NewSessionResponse:
        """Open a session in a working directory."""
        session_id = uuid.uuid4().hex
        self._sessions[session_id] = _Session(cwd)
        return acp.NewSessionResponse(session_id=session_id)

    async def prompt(self, session_id: str, prompt: list[Any], **_: Any) -> acp.PromptResponse:
        """Run a prompt's text as a shell script."""
        session = self._sessions[session_id]
        session.cancelled = False
        script = "\n".join(block.text for block in prompt if block.type == "text")
        allowed = await self._permission(session_id, session, script)
        if not allowed and not session.cancelled:
            await self._say(session_id, "The script wasn't run: permission was rejected.\n")
            return acp.PromptResponse(stop_reason="refusal")
        if not session.cancelled:
            await self._run(session_id, session, script)
        return acp.PromptResponse(stop_reason="cancelled" if session.cancelled else "end_turn")

    async def cancel(self, session_id: str, **_: Any) -> None:
        """End the running script with everything in its process group."""
        session = self._sessions[session_id]
        session.cancelled = True
        if session.script is not None:
            await _end_group(session.script)

    async def _permission(self, session_id: str, session: _Session, script: str) -> bool:
        if script.split("\n", 1)[0].strip() == NO_PERMISSION:
            return True
        if session.remembered is not None:
            return session.remembered
        shown = schema.TextContentBlock(type="text", text=script[:_SHOWN_CHARACTERS])
        answer = await self._client.request_permission(
            session_id=session_id,
            tool_call=schema.ToolCallUpdate(
                tool_call_id=uuid.uuid4().hex,
                title="Run a shell script",
                kind="execute",
                status="pending",
                content=[schema.ContentToolCallContent(type="content", content=shown)],
            ),
            options=[
                schema.PermissionOption(option_id=kind, name=name, kind=kind)
                for kind, name in _OPTIONS
            ],
        )
        if answer.outcome.outcome == "cancelled":
            session.cancelled = True
            return False
        chosen = answer.outcome.option_id
        if chosen in ("allow_always", "reject_always"):
            session.remembered = chosen == "allow_always"
        return bool(chosen.startswith("allow"))

    async def _run(self, session_id: str, session: _Session, script: str) -> None:
        process = session.script = await _start(script, session.cwd)
        if session.cancelled:
            await _end_group(process)
        output = asyncio.create_task(self._stream(session_id, process.stdout))
        status = await exit_code_of(process)
        # What the script left in the background may hold its output open.
        await asyncio.wait({output}, timeout=_DRAIN_SECONDS)
        output.cancel()
        session.script = None
        if status != 0 and not session.cancelled:
            await self._say(session_id, f"exit status {status}\n")

    async def _stream(self, session_id: str, stream: asyncio.StreamReader | None) -> None:
        decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        while stream is not None and (piece := await stream.read(16 * 1024)):
            if text := decoder.decode(piece):
                await self._say(session_id, text)

    async def _say(self, session_id: str, text: str) -> None:
        await self._client.session_update(
            session_id=session_id, update=acp.update_agent_message_text(text)
        )


async def _start(script: str, cwd: str) -> asyncio.subprocess.Process:
    """Run the script from memory: an argument would limit its length, its input would be eaten."""
    source = os.memfd_create("script", 0)
    try:
        with os.fdopen(os.dup(source), "w") as file:
            file.write(script)
        return await asyncio.create_subprocess_exec(
            shutil.which("bash") or "/bin/sh",
            f"/dev/fd/{source}",
            cwd=cwd,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            pass_fds=(source,),
            start_new_session=True,
            preexec_fn=die_with_parent(os.getpid()),
        )
    finally:
        os.close(source)


async def _end_group(process: asyncio.subprocess.Process) -> None:
    for number in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_STOP_SECONDS):
                await exit_code_of(process)
                return


def main() -> None:
    """Serve on the standard streams until they close."""
    agent = ScriptedAgent()
    asyncio.run(
        acp.run_agent(agent, stdio_buffer_limit_bytes=MESSAGE_LIMIT_BYTES)  # type: ignore[arg-type]
    )


if __name__ == "__main__":
    main()
