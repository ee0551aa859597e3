"""`AcpRuntime`: the runtime protocol over sidecars on this host.

What is true is decided by the launch folder: its lock, its record and the sidecar's socket (see
`layout`). After a sidecar has ended its logs still answer: a repeated command hears its receipt
and no event is lost.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import time
import uuid
from pathlib import Path, PurePosixPath
from typing import Any

from muster.domain.errors import (
    IdempotencyConflict,
    InvalidInput,
    RuntimeGone,
    RuntimeUnavailable,
    WorkingDirectoryUnusable,
)
from muster.domain.faults import fault_point
from muster.domain.runtime import (
    AnswerCommand,
    AnswerReceipt,
    Closed,
    CloseRequest,
    DeliverReceipt,
    DeliverRequest,
    Endpoint,
    EndpointClosed,
    FollowRequest,
    FollowResult,
    InterruptRequest,
    Launched,
    LaunchFound,
    LaunchRequest,
    LaunchState,
    RuntimeKind,
)
from muster.runtimes.acp import layout
from muster.runtimes.acp.client import ask
from muster.runtimes.acp.commandlog import command_digest, recorded_receipt
from muster.runtimes.acp.environment import base_environment, check_environment, module_command
from muster.runtimes.acp.eventlog import read_ended
from muster.runtimes.acp.processes import identify
from muster.runtimes.acp.reading import read_events, read_status
from muster.runtimes.acp.record import recorded_processes
from muster.runtimes.signing import private_key_path

LAUNCH_SECONDS = 150.0
"""For a launch, agent included; after it the launch goes on and another call adopts it."""

END_SECONDS = 30.0
"""For the processes of a closed launch to be gone."""

_POLL_SECONDS = 0.02
_URL_PREFIX = "acp:"


class AcpRuntime:
    """Agents under one state root, on this host.

    Args:
        state_root: The root that holds every launch folder and private key.
        find_seconds: For a launch that is alive to answer a look-up, before it is `unknown`.
        command_seconds: For a sidecar to answer a command.
        cancel_grace_seconds: For an agent to end a cancelled turn, before it is ended itself.
    """

    def __init__(
        self,
        state_root: Path,
        *,
        find_seconds: float = 5.0,
        command_seconds: float = 30.0,
        cancel_grace_seconds: float = 10.0,
    ) -> None:
        self._root = state_root.absolute()
        self._find_seconds = find_seconds
        self._command_seconds = command_seconds
        self._cancel_grace_seconds = cancel_grace_seconds

    async def find_launch(self, request: LaunchRequest) -> LaunchFound:
        """See `AgentRuntime.find_launch`; decides by lock and record, never by a process id."""
        folder = self._root / _folder_of(request)
        deadline = time.monotonic() + self._find_seconds
        while layout.is_alive(folder):
            launched = await self._ready(folder, request, adopted=True)
            if launched is not None:
                return LaunchFound(state=LaunchState.RUNNING, launched=launched)
            if time.monotonic() > deadline:
                evidence = f"a launch in {folder} is alive and gives no answer"
                return LaunchFound(state=LaunchState.UNKNOWN, evidence=evidence)
            await asyncio.sleep(_POLL_SECONDS)
        record = layout.read_json(folder / layout.LAUNCH)
        if record is None:
            evidence = f"{folder} has no launch record and nobody holds its lock"
            return LaunchFound(state=LaunchState.ABSENT, evidence=evidence)
        return LaunchFound(state=LaunchState.ENDED, evidence=_why_ended(folder, record))

    async def launch(self, request: LaunchRequest) -> Launched:
        """See `AgentRuntime.launch`.

        Also raises WorkingDirectoryUnusable and InvalidInput before anything began, and
        IdempotencyConflict if the key launched something else.
        """
        self._check(request)
        folder = layout.make_private_folder(self._root, _folder_of(request))
        deadline = time.monotonic() + LAUNCH_SECONDS
        spawned = await self._spawn_if_free(folder, request)
        while True:
            launched = await self._ready(folder, request, adopted=not spawned)
            if launched is not None:
                return launched
            if not layout.is_alive(folder):
                if spawned or (folder / layout.LAUNCH).exists():
                    raise _ended_early(folder)
                spawned = await self._spawn_if_free(folder, request)
            if time.monotonic() > deadline:
                raise RuntimeUnavailable(f"the agent in {folder} is still starting: ask again")
            await asyncio.sleep(_POLL_SECONDS)

    async def deliver(self, request: DeliverRequest) -> DeliverReceipt:
        """See `AgentRuntime.deliver`; ActiveTurnExists while a turn runs."""
        message = {
            "verb": "deliver",
            "key": request.key,
            "turn_id": request.turn_id,
            "text": request.text,
        }
        answer = await self._command(request.endpoint, message)
        fault_point("deliver.sent")
        return DeliverReceipt(**answer)

    async def answer(self, request: AnswerCommand) -> AnswerReceipt:
        """See `AgentRuntime.answer`; InvalidInput for an option that the gate hasn't."""
        message = {
            "verb": "answer",
            "key": request.key,
            "gate_id": request.gate_id,
            "option_id": request.option_id,
        }
        answer = await self._command(request.endpoint, message)
        fault_point("answer.sent")
        return AnswerReceipt(**answer)

    async def interrupt(self, request: InterruptRequest) -> None:
        """See `AgentRuntime.interrupt`."""
        message = {
            "verb": "interrupt",
            "key": request.key,
            "runtime_turn_id": request.runtime_turn_id,
        }
        await self._command(request.endpoint, message)
        fault_point("interrupt.sent")

    async def follow(self, request: FollowRequest) -> FollowResult:
        """See `AgentRuntime.follow`; the sidecar waits, and cancelling this call is free."""
        folder = self._folder(request.endpoint)
        message = {"verb": "events", **request.model_dump(exclude={"endpoint"})}
        seconds = request.wait_seconds + self._command_seconds
        try:
            page = await ask(folder, message, seconds=seconds)
            lines, cursor, ended = page["events"], page["cursor"], False
        except RuntimeGone:
            lines, cursor = await asyncio.to_thread(
                read_ended,
                folder,
                request.after,
                limit=request.limit,
                include_chunks=request.include_chunks,
            )
            ended = cursor == request.after
        events, rejected = read_events(lines, request.endpoint, request.after)
        return FollowResult(
            events=tuple(events),
            rejected=tuple(rejected),
            cursor=cursor,
            gone=ended or any(isinstance(event, EndpointClosed) for event in events),
        )

    async def close(self, request: CloseRequest) -> Closed:
        """See `AgentRuntime.close`; returns when no process of the launch is left.

        A sidecar that is alive and doesn't answer is ended by its recorded identity.
        """
        folder = self._folder(request.endpoint)
        try:
            await ask(folder, {"verb": "close", "key": request.key}, seconds=self._command_seconds)
        except RuntimeGone:
            return Closed(already_gone=True)
        except (RuntimeUnavailable, TimeoutError):
            await _end_by_force(folder)
        await _until_free(folder)
        return Closed()

    async def _command(self, endpoint: Endpoint, message: dict[str, Any]) -> dict[str, Any]:
        folder = self._folder(endpoint)
        try:
            return await ask(folder, message, seconds=self._command_seconds)
        except RuntimeGone:
            digest = command_digest(message)
            found = await asyncio.to_thread(recorded_receipt, folder, message["key"], digest)
            if found is None:
                raise
            return found

    def _check(self, request: LaunchRequest) -> None:
        check_environment(request.environment)
        cwd = Path(request.cwd)
        if not cwd.is_absolute() or not cwd.is_dir() or not os.access(cwd, os.R_OK | os.X_OK):
            raise WorkingDirectoryUnusable(
                f"{request.cwd} isn't an accessible directory with an absolute path on this host"
            )
        key = self._key(request)
        if not key.is_file():
            raise RuntimeUnavailable(
                f"the session's private key isn't in {key} yet: write it first"
            )

    def _key(self, request: LaunchRequest) -> Path:
        return self._root / private_key_path(request.namespace_id, request.verifier.key_id)

    def _folder(self, endpoint: Endpoint) -> Path:
        relative = endpoint.endpoint_url.removeprefix(_URL_PREFIX)
        owner = f"v2/{endpoint.namespace_id}/sessions/{endpoint.session_id}/"
        if not layout.is_launch_folder(relative) or not relative.startswith(owner):
            raise InvalidInput(
                f"{endpoint.endpoint_url} isn't a launch of session {endpoint.session_id}"
            )
        return self._root / relative

    async def _spawn_if_free(self, folder: Path, request: LaunchRequest) -> bool:
        """Start a sidecar under the folder's lock; False if somebody else holds it."""
        lock = layout.try_lock(folder)
        if lock is None:
            return False
        try:
            if (folder / layout.LAUNCH).exists():
                raise _ended_early(folder)
            layout.write_private(folder / layout.REQUEST, request.model_dump_json().encode())
            fault_point("launch.before_spawn")
            await self._spawn(folder, self._key(request), lock)
        finally:
            os.close(lock)
        fault_point("launch.spawned")
        return True

    async def _spawn(self, folder: Path, key: Path, lock: int) -> None:
        """Start the sidecar; it detaches, so what is waited for is only its first process."""
        command = module_command(
            "muster.runtimes.acp.sidecar",
            *("--folder", str(folder), "--key", str(key), "--lock", str(lock)),
            *("--cancel-grace", str(self._cancel_grace_seconds)),
        )
        log = os.open(folder / layout.LOG, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            first = await asyncio.create_subprocess_exec(
                *command,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=base_environment(os.environ),
                pass_fds=(lock,),
                start_new_session=True,
            )
        finally:
            os.close(log)
        await first.wait()

    async def _ready(
        self, folder: Path, request: LaunchRequest, *, adopted: bool
    ) -> Launched | None:
        """The launch, once its sidecar answers and its agent is ready."""
        nonce = uuid.uuid4().hex
        try:
            answer = await ask(
                folder,
                {"verb": "status", "nonce": nonce},
                seconds=self._find_seconds,
                connect_seconds=0,
            )
        except (RuntimeGone, RuntimeUnavailable, TimeoutError, ConnectionError):
            return None
        status, verifier = read_status(answer["envelope"], nonce)
        bound = (status["namespace_id"], status["session_id"])
        if bound != (request.namespace_id, request.session_id):
            raise IdempotencyConflict(f"{folder} belongs to {'/'.join(bound)}")
        if status["state"] not in ("ready", "agent_gone"):
            return None
        _check_same_request(folder, request)
        endpoint = Endpoint(
            runtime=RuntimeKind.ACP,
            namespace_id=request.namespace_id,
            session_id=request.session_id,
            incarnation=status["incarnation"],
            endpoint_url=f"{_URL_PREFIX}{_folder_of(request)}",
            verifier=verifier,
        )
        return Launched(
            endpoint=endpoint,
            used_key_id=verifier.key_id,
            process_id=status["pid"],
            adopted=adopted,
        )


def _folder_of(request: LaunchRequest) -> PurePosixPath:
    return layout.launch_folder(request.namespace_id, request.session_id, request.remote_create_key)


def _check_same_request(folder: Path, request: LaunchRequest) -> None:
    """A key launches one thing; only the verifier may differ, since the caller settles that."""
    first = layout.read_json(folder / layout.REQUEST) or {}
    now = request.model_dump(mode="json")
    differing = [name for name in now if name != "verifier" and now[name] != first.get(name)]
    if differing:
        raise IdempotencyConflict(
            f"remote creation key {request.remote_create_key} launched another request "
            f"(differs in {', '.join(differing)}): use a new key",
            fields=differing,
        )


def _ended_early(folder: Path) -> RuntimeGone | RuntimeUnavailable:
    record = layout.read_json(folder / layout.LAUNCH)
    if record is None:
        return RuntimeUnavailable(
            f"the sidecar ended before it began an agent: see {folder / layout.LOG}, then try again"
        )
    return RuntimeGone(_why_ended(folder, record))


def _why_ended(folder: Path, record: dict[str, Any]) -> str:
    why = record.get("failed") or "nobody holds its lock any more"
    return f"incarnation {record['incarnation']} in {folder} has ended: {why}"


async def _end_by_force(folder: Path) -> None:
    record = layout.read_json(folder / layout.LAUNCH) or {}
    for process in recorded_processes(record):
        if identify(process.pid) == process:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGKILL)
            # Once the sidecar is gone its guard ends the rest; it is ended itself only if it
            # was the one that hung.
            if await _freed(folder):
                return


async def _freed(folder: Path) -> bool:
    deadline = time.monotonic() + 1.0
    while layout.is_alive(folder):
        if time.monotonic() > deadline:
            return False
        await asyncio.sleep(_POLL_SECONDS)
    return True


async def _until_free(folder: Path) -> None:
    deadline = time.monotonic() + END_SECONDS
    while layout.is_alive(folder):
        if time.monotonic() > deadline:
            raise RuntimeUnavailable(f"something in {folder} doesn't end: try again")
        await asyncio.sleep(_POLL_SECONDS)
