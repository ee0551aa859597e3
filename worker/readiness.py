"""Says when a worker takes work: once the server lists its pollers."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

from temporalio.api.enums.v1 import TaskQueueType
from temporalio.api.taskqueue.v1 import TaskQueue
from temporalio.api.workflowservice.v1 import DescribeTaskQueueRequest
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode
from temporalio.worker import Worker

READY_SECONDS = 15.0
"""A server that doesn't list pollers by then is one that can't; the worker counts as ready."""

_POLL_SECONDS = 0.05


async def polls(client: Client, task_queue: str, kind: TaskQueueType.ValueType) -> bool:
    """Whether anybody polls a queue; True where the server can't tell."""
    try:
        described = await client.workflow_service.describe_task_queue(
            DescribeTaskQueueRequest(
                namespace=client.namespace,
                task_queue=TaskQueue(name=task_queue),
                task_queue_type=kind,
            )
        )
    except RPCError as error:
        return error.status == RPCStatusCode.UNIMPLEMENTED
    return bool(described.pollers)


async def until_ready(client: Client, workers: list[Worker]) -> None:
    """Return once every worker's queue is polled."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(READY_SECONDS):
            for worker in workers:
                while not await polls(
                    client, worker.task_queue, TaskQueueType.TASK_QUEUE_TYPE_ACTIVITY
                ):
                    await asyncio.sleep(_POLL_SECONDS)


@contextlib.asynccontextmanager
async def ready_file(path: Path | None) -> AsyncIterator[None]:
    """Keep the ready file while the block runs."""
    if path is None:
        yield
        return
    await asyncio.to_thread(path.write_text, "ready\n")
    try:
        yield
    finally:
        await asyncio.to_thread(path.unlink, missing_ok=True)
