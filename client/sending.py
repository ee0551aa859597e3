"""How an update reaches its workflow: sent again under the same key until it has its answer.

An update that meets the end of a run (continued as new, or closed) or a server that is away for
a moment is sent again. That is safe, since what a key was answered first is in the document.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Coroutine
from datetime import UTC, datetime
from typing import Final, TypeVar

from temporalio.api.enums.v1 import TaskQueueType
from temporalio.api.taskqueue.v1 import TaskQueue
from temporalio.api.workflowservice.v1 import DescribeTaskQueueRequest
from temporalio.client import Client
from temporalio.service import RPCError

from muster.client.failures import coded, not_ready, run_ended, server_away
from muster.domain.errors import MusterError, TimedOut, WorkerUnavailable

NO_WORKER_SECONDS: Final = 10.0
"""After how long without an answer we look whether anybody polls the queue at all."""

END_OF_RUN_TRIES: Final = 6
"""How often an update may meet the end of a run: with the pauses, over about three seconds."""

NOT_READY_SECONDS: Final = 20.0
"""How long a workflow may fail to be carried on: a worker's code may be at fault, or a stall."""

FIRST_PAUSE_SECONDS: Final = 0.1
LAST_PAUSE_SECONDS: Final = 2.0

WORKFLOW_TASKS: Final = TaskQueueType.TASK_QUEUE_TYPE_WORKFLOW

T = TypeVar("T")


async def send(
    client: Client,
    attempt: Callable[[], Awaitable[T]],
    *,
    queue: str,
    within: float,
    repeat: str,
    gone: Callable[[], Awaitable[MusterError | None]] | None = None,
) -> T:
    """Await `attempt` until it has an answer.

    Args:
        attempt: Sends the command once; called again for a repeat.
        queue: The task queue whose worker answers.
        within: Seconds for all tries together.
        repeat: How the caller asks again, for the text of an error.
        gone: Says why there is nobody to answer, or None if only a run has ended.

    Raises:
        TimedOut: No answer in time; it may still be carried out.
        WorkerUnavailable: Nobody has polled the queue lately.
        MusterError: What the workflow answered, or that the server can't be reached.
    """
    try:
        async with asyncio.timeout(within):
            return await _with_a_worker(client, _until_answered(attempt, gone), queue, repeat)
    except TimeoutError:
        await _require_worker(client, queue, repeat)
        raise TimedOut(
            f"no answer within {within:g} s; it may still be carried out. {repeat} to hear what "
            "became of it",
            timeout_seconds=within,
        ) from None


async def _with_a_worker(
    client: Client, answer: Coroutine[None, None, T], queue: str, repeat: str
) -> T:
    answering = asyncio.ensure_future(answer)
    try:
        done, _ = await asyncio.wait([answering], timeout=NO_WORKER_SECONDS)
        if not done:
            await _require_worker(client, queue, repeat)
        return await answering
    finally:
        answering.cancel()
        with contextlib.suppress(asyncio.CancelledError, Exception):
            await answering


async def _until_answered(
    attempt: Callable[[], Awaitable[T]], gone: Callable[[], Awaitable[MusterError | None]] | None
) -> T:
    pause, ends, give_up = FIRST_PAUSE_SECONDS, 0, None
    while True:
        try:
            return await attempt()
        except Exception as error:
            if _is_cancelled():  # the SDK has its own error for that
                raise asyncio.CancelledError from error
            ended, away, stalled = run_ended(error), server_away(error), not_ready(error)
            ends += ended
            now = asyncio.get_running_loop().time()
            give_up = (give_up or now + NOT_READY_SECONDS) if stalled else None
            too_long = ends == END_OF_RUN_TRIES or (give_up is not None and now > give_up)
            if too_long or not (ended or away or stalled):
                raise coded(error) from error
            reason = await gone() if ended and gone else None
            if reason is not None:
                raise reason from error
        await asyncio.sleep(pause)
        pause = min(pause * 2, LAST_PAUSE_SECONDS)


def _is_cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


async def _require_worker(client: Client, queue: str, repeat: str) -> None:
    """Raises WorkerUnavailable when nobody has polled `queue` in the last minutes."""
    try:
        seen = await last_polled(client, queue)
    except RPCError:
        return
    if seen is None:
        raise WorkerUnavailable(
            f"no worker polls task queue {queue!r}. Start one (`muster dev`, or "
            f"`python -m muster.worker` with the same MUSTER_ROOT), then {repeat[:1].lower()}"
            f"{repeat[1:]}; `muster doctor` looks at everything",
            task_queue=queue,
        )


async def last_polled(
    client: Client, queue: str, kind: TaskQueueType.ValueType = WORKFLOW_TASKS
) -> float | None:
    """Seconds since a worker asked a queue for tasks; None if none did in the last minutes."""
    described = await client.workflow_service.describe_task_queue(
        DescribeTaskQueueRequest(
            namespace=client.namespace, task_queue=TaskQueue(name=queue), task_queue_type=kind
        )
    )
    newest = max(
        (poller.last_access_time.ToDatetime(UTC) for poller in described.pollers), default=None
    )
    return None if newest is None else (datetime.now(UTC) - newest).total_seconds()
