"""The life of a worker process: connect, poll, stop gracefully."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor

from temporalio.client import Client
from temporalio.runtime import PrometheusConfig, Runtime, TelemetryConfig
from temporalio.worker import Worker

from muster.client.connection import choose_servers, connect_temporal
from muster.domain.faults import arm_from_environment
from muster.stores.documents.connection import connect
from muster.worker.readiness import ready_file, until_ready
from muster.worker.settings import WorkerSettings
from muster.worker.wiring import assemble, build_workers

MONGO_MILLISECONDS = 4_000
"""For one operation: a MongoDB that is down may hold up a session's commands for so long at a time,
between attempts to publish."""

SWITCH_SECONDS = 0.0005
"""How long a thread that computes may keep another from running. A commit gives the interpreter
away at each of its file calls; beside a workflow task it would wait Python's 5 ms for it each time.
"""


async def run_worker(settings: WorkerSettings) -> None:
    """Serve the settings' queues until SIGTERM or SIGINT.

    Raises:
        TemporalUnavailable: No Temporal server answers.
        MongoUnavailable: No MongoDB server answers.
    """
    arm_from_environment()
    prepare_threads(settings)
    if settings.metrics_address is not None:
        _expose_metrics(settings.metrics_address)
    servers = choose_servers(settings)
    client = await connect_temporal(servers)
    async with connect(
        servers.mongo_uri, settings.mongo_database, timeoutMS=MONGO_MILLISECONDS
    ) as mongo:
        await mongo.ping()
        parts = assemble(settings, mongo)
        workers = build_workers(client, settings, parts)
        stopped = _stop_event()
        with contextlib.closing(parts):
            async with _running(workers):
                await until_ready(client, workers)
                async with ready_file(settings.ready_file):
                    _say_ready(client, workers)
                    await stopped.wait()


def prepare_threads(settings: WorkerSettings) -> None:
    """Give the running loop its threads, and let none of them wait long for the interpreter."""
    sys.setswitchinterval(SWITCH_SECONDS)
    asyncio.get_running_loop().set_default_executor(
        ThreadPoolExecutor(max_workers=settings.max_threads, thread_name_prefix="muster")
    )


@contextlib.asynccontextmanager
async def _running(workers: list[Worker]) -> AsyncIterator[None]:
    async with contextlib.AsyncExitStack() as stack:
        for worker in workers:
            await stack.enter_async_context(worker)
        yield


def _say_ready(client: Client, workers: list[Worker]) -> None:
    queues = ", ".join(worker.task_queue for worker in workers)
    print(f"muster worker ready: {client.namespace} {queues}", flush=True)


def _stop_event() -> asyncio.Event:
    stopped = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    return stopped


def _expose_metrics(address: str) -> None:
    telemetry = TelemetryConfig(metrics=PrometheusConfig(bind_address=address))
    Runtime.set_default(Runtime(telemetry=telemetry))
