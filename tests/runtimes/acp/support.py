"""What the tests of the acp runtime share: a state root with a key, and a session to talk to."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from muster.domain.runtime import (
    AnswerCommand,
    AnswerReceipt,
    Closed,
    CloseRequest,
    DeliverReceipt,
    DeliverRequest,
    Endpoint,
    FollowRequest,
    GateOpened,
    InterruptRequest,
    Launched,
    LaunchRequest,
    RuntimeEvent,
    RuntimeKind,
    TurnEnded,
    Verifier,
)
from muster.runtimes.acp import layout
from muster.runtimes.acp.adapter import AcpRuntime
from muster.runtimes.acp.processes import identify
from muster.runtimes.acp.record import recorded_processes
from muster.runtimes.signing import generate_key, private_key_path

E = TypeVar("E", bound=RuntimeEvent)

NAMESPACE = "tests"
FREELY = "#!muster no-permission\n"
"""Begins a prompt that the scripted agent runs without asking."""


@dataclass
class Session:
    """One launched session, followed from where the last look ended."""

    runtime: AcpRuntime
    root: Path
    cwd: Path
    launched: Launched
    cursor: int = 0

    @property
    def endpoint(self) -> Endpoint:
        return self.launched.endpoint

    @property
    def folder(self) -> Path:
        return self.root / self.endpoint.endpoint_url.removeprefix("acp:")

    def record(self) -> dict[str, Any]:
        found = layout.read_json(self.folder / layout.LAUNCH)
        assert found is not None
        return found

    async def deliver(self, text: str, key: str | None = None) -> DeliverReceipt:
        key = key or f"prompt-{uuid.uuid4().hex}"
        return await self.runtime.deliver(
            DeliverRequest(endpoint=self.endpoint, key=key, turn_id=f"turn-{key}", text=text)
        )

    async def events_until(
        self, wanted: type[Any], *, chunks: bool = False, seconds: float = 20
    ) -> list[RuntimeEvent]:
        """Every event up to and with the first of the wanted type."""
        seen: list[RuntimeEvent] = []
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            result = await self.runtime.follow(
                FollowRequest(
                    endpoint=self.endpoint,
                    after=self.cursor,
                    wait_seconds=1,
                    limit=1,
                    include_chunks=chunks,
                )
            )
            assert not result.rejected
            self.cursor = result.cursor
            seen.extend(result.events)
            if any(isinstance(event, wanted) for event in result.events):
                return seen
            if result.gone:
                break
        raise AssertionError(f"no {wanted.__name__} came, only {seen}")

    async def until(self, wanted: type[E]) -> E:
        last = (await self.events_until(wanted))[-1]
        assert isinstance(last, wanted)
        return last

    async def run(self, script: str) -> TurnEnded:
        """Run a script without being asked and return how its turn ended."""
        await self.deliver(FREELY + script)
        return await self.until(TurnEnded)

    async def answer(self, gate: GateOpened, option: str | None, key: str) -> AnswerReceipt:
        return await self.runtime.answer(
            AnswerCommand(endpoint=self.endpoint, key=key, gate_id=gate.gate_id, option_id=option)
        )

    async def interrupt(self, key: str = "interrupt-1") -> None:
        await self.runtime.interrupt(InterruptRequest(endpoint=self.endpoint, key=key))

    async def close(self, key: str = "close-1") -> Closed:
        return await self.runtime.close(CloseRequest(endpoint=self.endpoint, key=key))


@dataclass
class Home:
    """A state root in which sessions are launched and ended again."""

    root: Path
    cwd: Path
    verifier: Verifier

    @classmethod
    def make(cls, base: Path) -> Home:
        root, cwd = base / "state", base / "work"
        root.mkdir(parents=True)
        cwd.mkdir()
        return cls(root, cwd, add_key(root))

    def request(self, session_id: str = "s-1", **changes: Any) -> LaunchRequest:
        fields = {
            "runtime": RuntimeKind.ACP,
            "namespace_id": NAMESPACE,
            "session_id": session_id,
            "remote_create_key": f"remote_{session_id}",
            "cwd": str(self.cwd),
            "verifier": self.verifier,
        }
        return LaunchRequest(**{**fields, **changes})

    async def launch(
        self, request: LaunchRequest | None = None, runtime: AcpRuntime | None = None
    ) -> Session:
        runtime = runtime or AcpRuntime(self.root)
        launched = await runtime.launch(request or self.request())
        return Session(runtime, self.root, self.cwd, launched)

    def end_everything(self) -> None:
        """End what a test left, by the identities that the launches recorded."""
        for path in self.root.glob(f"v2/*/sessions/*/runtime/*/{layout.LAUNCH}"):
            for process in recorded_processes(layout.read_json(path) or {}):
                if identify(process.pid) == process:
                    os.kill(process.pid, signal.SIGCONT)
                    os.kill(process.pid, signal.SIGKILL)


def add_key(root: Path) -> Verifier:
    """A new key whose private half lies where the sidecar reads it."""
    pair = generate_key()
    path = root / private_key_path(NAMESPACE, pair.verifier.key_id)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(pair.private_pem)
    return pair.verifier


def make_repository(folder: Path) -> None:
    """An empty git repository with one commit."""
    git(folder, "init", "-q")
    git(folder, "config", "user.email", "tests@example.com")
    git(folder, "config", "user.name", "Tests")
    git(folder, "commit", "-q", "--allow-empty", "-m", "begin")


def git(folder: Path, *arguments: str) -> str:
    return subprocess.run(
        ["git", "-C", str(folder), *arguments], check=True, capture_output=True, text=True
    ).stdout.strip()


def lives(pid: int) -> bool:
    """Whether a process runs; a zombie doesn't."""
    return identify(pid) is not None


async def eventually(holds: Callable[[], bool], *, seconds: float = 10) -> None:
    """Wait until `holds`, or fail after `seconds`."""
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, "it didn't come about in time"
        await asyncio.sleep(0.02)


async def content_of(path: Path) -> str:
    """A file's text once it has any."""

    def text() -> str:
        return path.read_text().strip() if path.exists() else ""

    await eventually(lambda: bool(text()))
    return text()
