"""The processes of a stack: how each is called, and when it counts as ready."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Mapping
from pathlib import Path

from pymongo.errors import PyMongoError
from temporalio.client import Client
from temporalio.service import RPCError

from muster.client.local_stack import TemporalKind
from muster.devstack.mongo import (
    PROBE_MILLISECONDS,
    MongoFound,
    MongoKind,
    ensure_replica_set,
    local_uri,
    ping,
)
from muster.devstack.ports import LOOPBACK, answers
from muster.devstack.process import Child
from muster.devstack.temporal import TemporalFound
from muster.domain.search_attributes import SEARCH_ATTRIBUTES

# Without the first, one shard is polled in ticks of 50 ms, which adds 100 ms to an activity.
# The pragmas halve the time of what is written with a data file, and survive a killed process.
_DYNAMIC_CONFIG = ("history.transferProcessorMaxPollRPS=1000",)
_PRAGMAS = ("journal_mode=WAL", "synchronous=NORMAL")

WORKER_GRACE_SECONDS = 30.0
"""Longer than the worker's own time for activities under way."""


def temporal_child(
    found: TemporalFound,
    *,
    data_dir: Path,
    database: Path | None,
    port: int,
    ui_port: int | None,
    environ: Mapping[str, str],
) -> Child:
    """The Temporal server process, not started yet; `database` None keeps everything in memory."""
    program = str(found.program)
    if found.kind is TemporalKind.TEST_SERVER:
        command = [program, str(port)]
    else:
        command = _server_command(program, found.namespace, database, port, ui_port)

    async def ready() -> bool:
        return await answers(port) and await _temporal_answers(port, found.namespace)

    return Child(
        "temporal",
        command,
        log=data_dir / "logs" / "temporal.log",
        ready=ready,
        environ=environ,
        cwd=data_dir,
    )


def _server_command(
    program: str, namespace: str, database: Path | None, port: int, ui_port: int | None
) -> list[str]:
    command = [program, "server", "start-dev", "--ip", LOOPBACK, "--port", str(port)]
    command += ["--namespace", namespace, "--log-level", "warn", "--color", "never"]
    if ui_port is None:
        command += ["--headless"]
    else:
        command += ["--headless=false", "--ui-ip", LOOPBACK, "--ui-port", str(ui_port)]
    for setting in _DYNAMIC_CONFIG:
        command += ["--dynamic-config-value", setting]
    for name, kind in SEARCH_ATTRIBUTES.items():
        command += ["--search-attribute", f"{name}={kind}"]
    if database is not None:
        command += ["--db-filename", str(database)]
        for pragma in _PRAGMAS:
            command += ["--sqlite-pragma", pragma]
    return command


async def _temporal_answers(port: int, namespace: str) -> bool:
    try:
        async with asyncio.timeout(5.0):
            client = await Client.connect(f"{LOOPBACK}:{port}", namespace=namespace)
            return await client.service_client.check_health()
    except (RuntimeError, RPCError, TimeoutError):
        return False


def mongo_child(
    found: MongoFound, *, data_dir: Path, port: int, environ: Mapping[str, str]
) -> Child:
    """The MongoDB server process, not started yet."""
    storage = data_dir / "mongo" / found.kind
    storage.mkdir(parents=True, exist_ok=True)
    if found.kind is MongoKind.MONGOD:
        command = [str(found.program), "--replSet", "muster", "--dbpath", str(storage)]
        command += ["--bind_ip", LOOPBACK, "--port", str(port)]
    else:
        # Without --sync-on-commit a killed process loses commits that it has acknowledged.
        command = [str(found.program), "--host", LOOPBACK, "--port", str(port)]
        command += ["--storage-path", str(storage), "--sync-on-commit"]
        command += ["--cache-size", "256M", "--log-level", "WARNING"]

    async def ready() -> bool:
        if not await answers(port):
            return False
        try:
            if found.kind is MongoKind.MONGOD:
                return await ensure_replica_set(port)
            await ping(local_uri(port), PROBE_MILLISECONDS)
        except PyMongoError:
            return False
        return True

    return Child(
        "mongo",
        command,
        log=data_dir / "logs" / "mongo.log",
        ready=ready,
        environ=environ,
        cwd=data_dir,
    )


def worker_child(*, data_dir: Path, environ: Mapping[str, str], mongo_uri: str | None) -> Child:
    """The worker process, not started yet; `environ` names the Temporal server."""
    ready_file = data_dir / "run" / "worker.ready"
    ready_file.parent.mkdir(parents=True, exist_ok=True)
    settings = {
        "MUSTER_ROOT": "default",
        **environ,
        "MUSTER_STATE_ROOT": str(data_dir / "state"),
        "MUSTER_READY_FILE": str(ready_file),
        "PYTHONUNBUFFERED": "1",
    }
    if mongo_uri is not None:
        settings["MUSTER_MONGO_URI"] = mongo_uri

    async def ready() -> bool:
        return ready_file.exists()

    return Child(
        "worker",
        [sys.executable, "-m", "muster.worker"],
        log=data_dir / "logs" / "worker.log",
        ready=ready,
        environ=settings,
        cwd=data_dir,
        grace=WORKER_GRACE_SECONDS,
        removed_before_start=ready_file,
    )


def local_temporal_settings(
    environ: Mapping[str, str], address: str, namespace: str
) -> dict[str, str]:
    """`environ` for a process that uses the stack's own server: nothing of another one is left.

    An API key or a TLS setting meant for some cluster would break the plain local connection.
    """
    kept = {name: value for name, value in environ.items() if not name.startswith("TEMPORAL_")}
    kept.update(
        TEMPORAL_ADDRESS=address, TEMPORAL_NAMESPACE=namespace, TEMPORAL_CONFIG_FILE=os.devnull
    )
    return kept
