"""One process of the stack: started, found ready, stopped, never outliving the supervisor."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path

from muster.client.local_stack import ProcessInfo

LOG_LIMIT_BYTES = 16 * 1024 * 1024
"""A log above this is moved to `<name>.log.1` at the next start."""

_TETHER = Path(__file__).resolve().parent / "tether.py"
_POLL_SECONDS = 0.05
_TAIL_BYTES = 2000
_TRACE_BYTES = 256 * 1024
"""Enough for what a Go program prints when it gives up."""


class StartFailed(Exception):
    """A process ended or stayed silent instead of becoming ready; the text says which."""


def process_started(pid: int) -> str | None:
    """When the kernel started `pid`, as an opaque text; None if there is no such process.

    Together with the pid it names one process of one boot. A zombie counts as gone.
    """
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return None
    state, started = fields[0], fields[19]
    return None if state in "ZX" else f"{boot}/{started}"


class Child:
    """A process in its own group, with its output in a log.

    Args:
        command: The program and its arguments.
        log: Where standard output and error are appended.
        ready: Asked again and again until it says true.
        ready_within: Seconds until a start counts as failed.
        grace: Seconds between SIGTERM and SIGKILL at a stop.
        removed_before_start: A file that only this process makes, to say that it is ready.
    """

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        *,
        log: Path,
        ready: Callable[[], Awaitable[bool]],
        environ: Mapping[str, str],
        cwd: Path,
        ready_within: float = 60.0,
        grace: float = 10.0,
        removed_before_start: Path | None = None,
    ) -> None:
        self.name = name
        self.command = tuple(command)
        self.log = log
        self.restarts = 0
        self._ready = ready
        self._environ = dict(environ)
        self._cwd = cwd
        self._ready_within = ready_within
        self._grace = grace
        self._removed_before_start = removed_before_start
        self._process: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        """Start and wait until ready.

        Raises:
            StartFailed: It ended or wasn't ready in time; it doesn't run then.
        """
        self._rotate_log()
        if self._removed_before_start is not None:
            self._removed_before_start.unlink(missing_ok=True)
        with self.log.open("ab") as output:
            self._process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-IS",
                str(_TETHER),
                str(os.getpid()),
                *self.command,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=output,
                stderr=asyncio.subprocess.STDOUT,
                env=self._environ,
                cwd=self._cwd,
                start_new_session=True,
            )
        try:
            await self._until_ready(self._process)
        except BaseException:
            await self.stop()
            raise

    async def _until_ready(self, process: asyncio.subprocess.Process) -> None:
        try:
            async with asyncio.timeout(self._ready_within):
                while not await self._ready():
                    if process.returncode is not None:
                        ended = f"{self.name} ended with status {process.returncode}"
                        raise StartFailed(ended + self._last_words())
                    await asyncio.sleep(_POLL_SECONDS)
        except TimeoutError:
            raise StartFailed(
                f"{self.name} wasn't ready within {self._ready_within:.0f} s{self._last_words()}"
            ) from None

    async def wait(self) -> int:
        """Wait until the process ends; its status, negative for a signal."""
        if self._process is None:
            raise RuntimeError(f"{self.name} was never started")
        return await self._process.wait()

    async def stop(self) -> None:
        """SIGTERM, then after the grace SIGKILL to the whole group. Not running is a success."""
        process = self._process
        if process is None:
            return
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(signal.SIGTERM)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._grace):
                    await process.wait()
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()

    def info(self) -> ProcessInfo | None:
        """The process as the state file names it; None when it doesn't run."""
        process = self._process
        if process is None or process.returncode is not None:
            return None
        return ProcessInfo(
            name=self.name,
            pid=process.pid,
            started=process_started(process.pid),
            log=str(self.log),
            restarts=self.restarts,
        )

    @property
    def lost_a_port(self) -> bool:
        """Whether its log's end says that another process has a port that it wanted."""
        return "address already in use" in self._tail(_TRACE_BYTES)

    def _rotate_log(self) -> None:
        self.log.parent.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(FileNotFoundError):
            if self.log.stat().st_size > LOG_LIMIT_BYTES:
                self.log.replace(self.log.with_suffix(".log.1"))

    def _last_words(self) -> str:
        tail = self._tail(_TAIL_BYTES)
        lines = [line.strip() for line in tail.splitlines() if line.strip()]
        return f", last line {lines[-1][:300]!r}" if lines else ""

    def _tail(self, size: int) -> str:
        try:
            return self.log.read_bytes()[-size:].decode(errors="replace")
        except OSError:
            return ""
