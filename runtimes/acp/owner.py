"""The sidecar once its agent is starting: puts its parts together and serves until the end."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from logging.handlers import RotatingFileHandler
from pathlib import Path, PurePosixPath

from muster.domain.runtime import LaunchRequest
from muster.runtimes.acp import layout
from muster.runtimes.acp.agent_link import AgentLink
from muster.runtimes.acp.agent_process import AgentProcess
from muster.runtimes.acp.commandlog import CommandLog
from muster.runtimes.acp.environment import base_environment
from muster.runtimes.acp.eventlog import Binding, EventLog
from muster.runtimes.acp.gates import Gates
from muster.runtimes.acp.record import LaunchRecord
from muster.runtimes.acp.recorder import Recorder
from muster.runtimes.acp.server import serving
from muster.runtimes.acp.service import Service
from muster.runtimes.acp.turns import Place, Turns
from muster.runtimes.signing import Signer

START_SECONDS = 120.0
"""For an agent to initialize and open its session."""

_EXIT_SECONDS = 0.5

LOG_BYTES = 512 * 1024
"""Of the agent's error output and the sidecar's own notes; one older file is kept beside it."""


async def own_agent(
    folder: Path,
    private_pem: bytes,
    record: LaunchRecord,
    process: AgentProcess,
    cancel_grace_seconds: float,
) -> None:
    """Connect to the starting agent and serve its session until it is closed."""
    _log_to(folder / layout.LOG)
    request = LaunchRequest.model_validate(layout.read_json(folder / layout.REQUEST))
    signer = Signer.from_pem(private_pem)
    binding = Binding(request.namespace_id, request.session_id, record.incarnation)
    events = EventLog(folder, signer, binding)
    recorder = Recorder(events)
    gates = Gates(recorder)
    turns = Turns(_place(folder, request, cancel_grace_seconds), recorder, gates)
    service = Service(
        binding=binding,
        signer=signer,
        events=events,
        commands=CommandLog(folder),
        gates=gates,
        turns=turns,
        recorder=recorder,
        process=process,
    )
    _stop_on_signal(service)
    async with serving(folder, service.handle, record.guard_pid):
        link, failure = await _connect(process, turns, request)
        if link is not None:
            turns.attach(process, link)
            await record.save_patiently(
                agent_pid=process.pid,
                agent_session_id=link.session_id,
                used_key_id=signer.verifier.key_id,
            )
            service.begin()
        elif not service.ending:
            record.save(
                failed=f"{failure}; the last it said: {await process.last_words() or 'nothing'}"
            )
            await process.end()
            return
        await service.finished.wait()


async def _connect(
    process: AgentProcess, turns: Turns, request: LaunchRequest
) -> tuple[AgentLink | None, str]:
    """The connection, or None and why there is none."""
    opening = asyncio.create_task(AgentLink.open(process, turns, request.cwd, request.model))
    exited = asyncio.create_task(process.wait())
    await asyncio.wait(
        {opening, exited}, timeout=START_SECONDS, return_when=asyncio.FIRST_COMPLETED
    )
    error = opening.exception() if opening.done() else None
    if opening.done() and error is None:
        exited.cancel()
        return opening.result(), ""
    opening.cancel()
    # A lost connection may be noticed before the end that explains it.
    await asyncio.wait({exited}, timeout=_EXIT_SECONDS if error else 0)
    if exited.done():
        return None, f"the agent ended while it started (exit code {exited.result()})"
    exited.cancel()
    if error is not None:
        return None, f"the agent refused to start: {error}"
    return None, f"the agent wasn't ready within {START_SECONDS:.0f} s"


def _place(folder: Path, request: LaunchRequest, cancel_grace_seconds: float) -> Place:
    reference = layout.launch_folder(
        request.namespace_id, request.session_id, request.remote_create_key
    )
    return Place(
        cwd=request.cwd,
        folder=folder,
        reference=PurePosixPath(*reference.parts[2:]),
        environment=base_environment(os.environ),
        cancel_grace_seconds=cancel_grace_seconds,
    )


def _stop_on_signal(service: Service) -> None:
    tasks: set[asyncio.Task[None]] = set()

    def stop() -> None:
        tasks.add(asyncio.create_task(service.stop("the sidecar was told to stop")))

    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop)


def _log_to(path: Path) -> None:
    handler = RotatingFileHandler(path, maxBytes=LOG_BYTES, backupCount=1)
    handler.setFormatter(logging.Formatter("%(asctime)s %(name)s: %(message)s"))
    logging.basicConfig(level=logging.INFO, handlers=[handler])
