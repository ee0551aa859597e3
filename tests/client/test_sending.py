"""A command that meets the end of a run, or a server that is away, is sent again."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from temporalio import workflow
from temporalio.api.common.v1 import GrpcStatus
from temporalio.api.errordetails.v1 import WorkflowNotReadyFailure
from temporalio.client import (
    Client,
    WorkflowUpdateFailedError,
    WorkflowUpdateRPCTimeoutOrCancelledError,
)
from temporalio.exceptions import ApplicationError
from temporalio.service import RPCError, RPCStatusCode
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

from muster.client import sending
from muster.client.failures import RUN_ENDED
from muster.client.sending import END_OF_RUN_TRIES, send
from muster.domain.errors import (
    MusterError,
    QueueFull,
    ResourceGone,
    TimedOut,
    WorkerUnavailable,
)
from tests.waiting import eventually_async

Attempt = Callable[[], Awaitable[str]]


@workflow.defn
class Idle:
    """A workflow that a worker can poll for."""

    @workflow.run
    async def run(self) -> None:
        """Do nothing."""


class Tries:
    """An attempt that fails with each of `errors` in turn and then succeeds."""

    def __init__(self, *errors: Exception) -> None:
        self._errors = list(errors)
        self.made = 0

    async def __call__(self) -> str:
        self.made += 1
        if self._errors:
            raise self._errors.pop(0)
        return "done"


def _status(status: RPCStatusCode) -> RPCError:
    return RPCError("said", status, b"")


def _run_ended() -> Exception:
    return WorkflowUpdateFailedError(ApplicationError("ended", type=RUN_ENDED))


async def _send(client: Client, attempt: Attempt, gone: MusterError | None = None) -> str:
    async def reason() -> MusterError | None:
        return gone

    return await send(client, attempt, queue="nobody-polls", within=20, repeat="Again", gone=reason)


async def test_an_update_that_met_the_end_of_a_run_gets_its_answer_from_the_next(
    temporal: Client,
) -> None:
    tries = Tries(_run_ended(), _status(RPCStatusCode.NOT_FOUND))
    assert await _send(temporal, tries) == "done"
    assert tries.made == 3


async def test_a_server_that_is_away_for_a_moment_is_asked_again(temporal: Client) -> None:
    tries = Tries(_status(RPCStatusCode.UNAVAILABLE), _status(RPCStatusCode.UNAVAILABLE))
    assert await _send(temporal, tries) == "done"


async def test_a_server_too_busy_to_take_an_update_in_its_own_time_is_asked_again(
    temporal: Client,
) -> None:
    tries = Tries(WorkflowUpdateRPCTimeoutOrCancelledError())
    assert await _send(temporal, tries) == "done"
    assert tries.made == 2


async def test_the_callers_own_time_limit_ends_an_update_that_the_sdk_reports_as_cancelled(
    temporal: Client,
) -> None:
    made: list[int] = []

    async def attempt() -> str:
        made.append(1)
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError as error:
            raise WorkflowUpdateRPCTimeoutOrCancelledError from error
        return "done"

    with pytest.raises(WorkerUnavailable):
        await send(temporal, attempt, queue="nobody-polls", within=0.3, repeat="Again")
    assert made == [1]


def _not_ready() -> RPCError:
    status = GrpcStatus(code=RPCStatusCode.FAILED_PRECONDITION.value)
    status.details.add().Pack(WorkflowNotReadyFailure())
    return RPCError("failed", RPCStatusCode.FAILED_PRECONDITION, status.SerializeToString())


async def test_a_workflow_whose_worker_stalled_is_asked_again(temporal: Client) -> None:
    tries = Tries(_not_ready(), _not_ready())
    assert await _send(temporal, tries) == "done"
    assert tries.made == 3


async def test_a_workflow_that_no_worker_can_carry_on_is_given_up(
    temporal: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sending, "NOT_READY_SECONDS", 0.2)
    with pytest.raises(WorkerUnavailable, match="can't carry the workflow on"):
        await _send(temporal, Tries(*(_not_ready() for _ in range(50))))


async def test_a_refusal_is_not_repeated(temporal: Client) -> None:
    full = WorkflowUpdateFailedError(ApplicationError("full", {"limit": 2}, type="queue_full"))
    tries = Tries(full)
    with pytest.raises(QueueFull) as raised:
        await _send(temporal, tries)
    assert raised.value.details == {"limit": 2}
    assert tries.made == 1


async def test_where_nobody_is_left_to_answer_the_reason_is_said_at_once(
    temporal: Client,
) -> None:
    tries = Tries(_run_ended())
    with pytest.raises(ResourceGone, match="closed"):
        await _send(temporal, tries, gone=ResourceGone("closed"))
    assert tries.made == 1


async def test_runs_that_end_again_and_again_are_given_up(temporal: Client) -> None:
    tries = Tries(*[_run_ended() for _ in range(2 * END_OF_RUN_TRIES)])
    with pytest.raises(MusterError):
        await _send(temporal, tries)
    assert tries.made == END_OF_RUN_TRIES


async def test_without_an_answer_in_time_a_queue_that_nobody_polls_is_blamed(
    temporal: Client,
) -> None:
    async def never() -> str:
        await asyncio.Event().wait()
        return ""

    with pytest.raises(WorkerUnavailable) as raised:
        await send(temporal, never, queue="nobody-polls", within=0.2, repeat="Again with key k")
    assert "again with key k" in raised.value.message


async def test_without_an_answer_in_time_a_polled_queue_is_a_time_out_that_says_how_to_ask_again(
    temporal: Client,
) -> None:
    async def never() -> str:
        await asyncio.Event().wait()
        return ""

    async def says_time_out() -> bool:
        try:
            await send(temporal, never, queue="polled", within=0.1, repeat="Again with key k")
        except TimedOut as error:
            return "Again with key k" in error.message
        except WorkerUnavailable:
            return False
        return False

    worker = Worker(
        temporal,
        task_queue="polled",
        workflows=[Idle],
        workflow_runner=UnsandboxedWorkflowRunner(),
    )
    async with worker:
        assert await eventually_async(says_time_out)
