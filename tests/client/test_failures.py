"""From what Temporal raises to coded errors."""

from __future__ import annotations

import pytest
from google.protobuf.any_pb2 import Any as AnyMessage
from temporalio.api.common.v1 import GrpcStatus
from temporalio.api.errordetails.v1 import NamespaceNotFoundFailure
from temporalio.client import WorkflowUpdateFailedError
from temporalio.exceptions import ActivityError, ApplicationError, RetryState
from temporalio.service import RPCError, RPCStatusCode

from muster.client.failures import RUN_ENDED, coded, run_ended, server_away
from muster.domain.creation import CreateSpec
from muster.domain.errors import (
    ERRORS_BY_CODE,
    IdempotencyConflict,
    InvalidInput,
    MusterError,
    ResourceGone,
    TemporalUnavailable,
    TimedOut,
    WorkerUnavailable,
)


def _rpc(status: RPCStatusCode, *details: AnyMessage) -> RPCError:
    raw = GrpcStatus(code=status.value, message="said", details=details)
    return RPCError("said", status, raw.SerializeToString())


def _refused(kind: str, *details: object) -> WorkflowUpdateFailedError:
    return WorkflowUpdateFailedError(ApplicationError("no", *details, type=kind))


@pytest.mark.parametrize("code", sorted(ERRORS_BY_CODE))
def test_a_workflows_refusal_becomes_the_error_of_its_code(code: str) -> None:
    found = coded(_refused(code, {"fields": ["title"]}))
    assert type(found) is ERRORS_BY_CODE[code]
    assert found.details == {"fields": ["title"]}


def test_the_code_is_found_below_what_wraps_it() -> None:
    wrapped = ActivityError(
        "failed",
        scheduled_event_id=1,
        started_event_id=2,
        identity="",
        activity_type="claim",
        activity_id="1",
        retry_state=RetryState.NON_RETRYABLE_FAILURE,
    )
    wrapped.__cause__ = ApplicationError("differs", type="idempotency_conflict")
    assert isinstance(coded(WorkflowUpdateFailedError(wrapped)), IdempotencyConflict)


def test_an_unknown_code_is_kept_in_the_message() -> None:
    found = coded(_refused("brand_new"))
    assert type(found) is MusterError
    assert "brand_new" in found.message


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (RPCStatusCode.UNAVAILABLE, TemporalUnavailable),
        (RPCStatusCode.PERMISSION_DENIED, TemporalUnavailable),
        (RPCStatusCode.UNAUTHENTICATED, TemporalUnavailable),
        (RPCStatusCode.NOT_FOUND, ResourceGone),
        (RPCStatusCode.DEADLINE_EXCEEDED, TimedOut),
        (RPCStatusCode.INVALID_ARGUMENT, InvalidInput),
        (RPCStatusCode.FAILED_PRECONDITION, WorkerUnavailable),
    ],
)
def test_a_servers_status_decides(status: RPCStatusCode, expected: type[MusterError]) -> None:
    assert type(coded(_rpc(status))) is expected


def test_a_missing_namespace_is_not_a_missing_session() -> None:
    detail = AnyMessage()
    detail.Pack(NamespaceNotFoundFailure(namespace="prod"))
    error = _rpc(RPCStatusCode.NOT_FOUND, detail)
    assert isinstance(coded(error), TemporalUnavailable)
    assert not run_ended(error)


def test_an_update_that_met_the_end_of_a_run_is_to_be_sent_again() -> None:
    assert run_ended(_refused(RUN_ENDED))
    assert run_ended(_rpc(RPCStatusCode.NOT_FOUND))
    assert not run_ended(_refused("queue_full"))


def test_a_server_that_is_away_is_asked_again_and_one_that_refuses_is_not() -> None:
    assert server_away(_rpc(RPCStatusCode.UNAVAILABLE))
    assert not server_away(_rpc(RPCStatusCode.PERMISSION_DENIED))


def test_an_invalid_model_names_its_fields() -> None:
    with pytest.raises(ValueError, match="title") as raised:
        CreateSpec(cwd="/", title="x" * 300)
    found = coded(raised.value)
    assert isinstance(found, InvalidInput)
    assert found.details == {"fields": ["title"]}
