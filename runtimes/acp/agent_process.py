"""The agent's process: started in a session of its own, ended with everything in its group."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
from collections.abc import Mapping, Sequence

from muster.runtimes.acp.processes import die_with_parent, exit_code_of

MESSAGE_LIMIT_BYTES = 50 * 1024 * 1024
"""Of one protocol message; the library's own default."""

END_GRACE_SECONDS = 2.0
"""Between asking an agent to end and ending it."""

_LAST_WORDS_CHARACTERS = 500
_DRAIN_SECONDS = 0.3
_log = logging.getLogger("agent")


class AgentProcess:
    """One running agent."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self._said = ""
        self._listening = asyncio.create_task(self._listen())

    @classmethod
    async def start(
        cls, command: Sequence[str], cwd: str, environment: Mapping[str, str], umask: int
    ) -> AgentProcess:
        """Start `command`; OSError if it or the working directory can't be used."""
        process = await asyncio.create_subprocess_exec(
            *command,
            cwd=cwd,
            env=environment,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            limit=MESSAGE_LIMIT_BYTES,
            start_new_session=True,
            umask=umask,
            preexec_fn=die_with_parent(os.getpid()),
        )
        return cls(process)

    @property
    def pid(self) -> int:
        """The process id, which is its session's and its group's too."""
        return self._process.pid

    async def last_words(self) -> str:
        """The end of what it wrote to its error output."""
        await asyncio.wait({self._listening}, timeout=_DRAIN_SECONDS)
        return self._said.strip()

    @property
    def streams(self) -> tuple[asyncio.StreamWriter, asyncio.StreamReader]:
        """Its standard input and output."""
        stdin, stdout = self._process.stdin, self._process.stdout
        if stdin is None or stdout is None:
            raise RuntimeError("the agent was started without pipes")
        return stdin, stdout

    async def wait(self) -> int:
        """Its exit code, once it has ended."""
        return await exit_code_of(self._process)

    def kill(self) -> None:
        """End its whole group at once."""
        self._signal(signal.SIGKILL)

    async def end(self, grace: float = END_GRACE_SECONDS) -> None:
        """Close its input and ask it to end; after `grace` seconds end its whole group."""
        self.streams[0].close()
        self._signal(signal.SIGTERM)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(grace):
                await self.wait()
        self.kill()
        await self.wait()

    def _signal(self, number: signal.Signals) -> None:
        # Once it is reaped, its number may be somebody else's.
        if self._process.returncode is None:
            os.killpg(self._process.pid, number)

    async def _listen(self) -> None:
        stream = self._process.stderr
        while stream is not None and (piece := await stream.read(4096)):
            text = piece.decode(errors="replace")
            self._said = (self._said + text)[-_LAST_WORDS_CHARACTERS:]
            _log.info("%s", text.rstrip("\n"))
