"""The process that owns one agent: `python -m muster.runtimes.acp.sidecar`.

It detaches from whoever started it, so that a worker may come and go. Two processes stay: the
guard, which outlives the sidecar and ends what is left of the agent's processes, and the sidecar
itself. Both hold the folder's lock; when it is free, nothing of the launch runs any more.

The agent needs longer to start than everything here, so it is started first and the larger
imports happen while it does.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from muster.runtimes.acp import layout
from muster.runtimes.acp.agent_process import AgentProcess
from muster.runtimes.acp.environment import base_environment, module_command
from muster.runtimes.acp.processes import (
    adopt_orphans,
    die_with_parent,
    end_descendants,
    name_process,
)
from muster.runtimes.acp.record import LaunchRecord

ALREADY_RUNNING = 3
"""Exit status when another sidecar owns the folder."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Detach, then run guard and sidecar until the session is closed."""
    options = _options(arguments)
    agents_umask = os.umask(0o077)
    os.chdir(options.folder)
    lock = options.lock if options.lock is not None else layout.try_lock(options.folder)
    if lock is None:
        sys.exit(ALREADY_RUNNING)
    if os.fork():
        os._exit(0)
    os.setsid()
    adopt_orphans()
    guard = os.getpid()
    child = os.fork()
    if child:
        _guard(child)
    die_with_parent(guard)()
    name_process("muster-sidecar")
    status = 1
    try:
        asyncio.run(_run(options, guard, agents_umask))
        status = 0
    finally:
        # No interpreter exit: a thread that hangs must not keep the lock.
        os._exit(status)


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="muster.runtimes.acp.sidecar")
    parser.add_argument("--folder", type=Path, required=True, help="the launch folder")
    parser.add_argument("--key", type=Path, required=True, help="the session's private key")
    parser.add_argument("--lock", type=int, help="an inherited descriptor that holds the lock")
    parser.add_argument("--cancel-grace", type=float, default=10.0, help="seconds for a cancel")
    return parser.parse_args(arguments)


def _guard(child: int) -> None:
    """Outlive the sidecar, then end every process that is left; never returns."""
    name_process("muster-guard")
    signal.signal(signal.SIGTERM, lambda *_: os.kill(child, signal.SIGTERM))
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    while os.waitpid(-1, 0)[0] != child:
        pass
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    end_descendants(os.getpid(), spare=frozenset())
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG) != (0, 0):
            pass
    os._exit(0)


async def _run(options: argparse.Namespace, guard: int, agents_umask: int) -> None:
    folder, private_pem = options.folder, options.key.read_bytes()
    request = layout.read_json(folder / layout.REQUEST) or {}
    record = LaunchRecord(folder, guard)
    record.save()
    command = request["command"] or module_command("muster.runtimes.acp.scripted_agent")
    environment = {**base_environment(os.environ), **request["environment"]}
    try:
        process = await AgentProcess.start(command, request["cwd"], environment, agents_umask)
    except OSError as error:
        record.save(failed=f"the agent's command can't be started: {error}")
        return
    from muster.runtimes.acp.owner import own_agent

    await own_agent(folder, private_pem, record, process, options.cancel_grace)


if __name__ == "__main__":
    main()
