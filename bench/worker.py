"""A bench's worker: Muster's workflows and the bare ones in a process of their own.

    python -m bench.worker RUNTIME        (`instant` or `acp`)

Settings come from the environment as for every worker. Each line on standard input is answered
with one line of counts; at its end the worker leaves.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from collections.abc import Mapping
from contextlib import AsyncExitStack
from typing import TextIO

from temporalio.client import Client
from temporalio.contrib.pydantic import pydantic_data_converter

from bench.bare import bare_workers
from bench.instant_runtime import InstantRuntime
from bench.probe import CountedCalls, CountedCommands, Probe, TimedActivities, TimedRuntime
from muster.client.connection import choose_servers
from muster.domain.runtime import RuntimeKind
from muster.runtimes.acp.adapter import AcpRuntime
from muster.runtimes.protocol import AgentRuntime
from muster.stores.documents.connection import connect
from muster.stores.files import calls
from muster.worker.readiness import until_ready
from muster.worker.run import MONGO_MILLISECONDS, prepare_threads
from muster.worker.settings import WorkerSettings, load_worker_settings
from muster.worker.wiring import assemble, build_workers


async def serve(settings: WorkerSettings, runtime: AgentRuntime, answers: TextIO) -> None:
    """Poll, and answer for the counts until standard input ends."""
    probe = Probe()
    prepare_threads(settings)
    servers = choose_servers(settings)
    client = await Client.connect(
        servers.address,
        data_converter=pydantic_data_converter,
        interceptors=[TimedActivities(probe)],
    )
    runtimes: Mapping[RuntimeKind, AgentRuntime] = {RuntimeKind.ACP: TimedRuntime(runtime, probe)}
    async with AsyncExitStack() as stack:
        stack.enter_context(calls.use(CountedCalls(probe)))
        mongo = await stack.enter_async_context(
            connect(
                servers.mongo_uri,
                settings.mongo_database,
                timeoutMS=MONGO_MILLISECONDS,
                event_listeners=[CountedCommands(probe)],
            )
        )
        workers = [
            *build_workers(client, settings, assemble(settings, mongo, runtimes)),
            *bare_workers(client, settings),
        ]
        for worker in workers:
            await stack.enter_async_context(worker)
        await until_ready(client, workers)
        print("ready", file=answers, flush=True)
        while await asyncio.to_thread(sys.stdin.readline):
            print(probe.snapshot().model_dump_json(), file=answers, flush=True)


def main() -> None:
    """Serve with the runtime that the command line names."""
    logging.basicConfig(level=logging.WARNING)
    settings = load_worker_settings()
    runtime: AgentRuntime = InstantRuntime()
    if sys.argv[1:] == ["acp"]:
        runtime = AcpRuntime(settings.state_root)
    # The SDK writes its log to standard output.
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    asyncio.run(serve(settings, runtime, answers))


if __name__ == "__main__":
    main()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)
