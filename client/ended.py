"""Why nobody answers a session's command: what has become of the workflow that would."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from temporalio.client import Client, WorkflowExecutionStatus, WorkflowFailureError
from temporalio.service import RPCError, RPCStatusCode

from muster.client.failures import coded
from muster.domain.errors import MusterError, ResourceGone, StateCorrupt

RUNNING = frozenset({WorkflowExecutionStatus.RUNNING, WorkflowExecutionStatus.CONTINUED_AS_NEW})


def reason_of_end(
    client: Client, workflow_id: str, namespace: str, session: str
) -> Callable[[], Awaitable[MusterError | None]]:
    """What `sending.send` asks when an update has met the end of a run.

    Args:
        workflow_id: The session's workflow.

    Returns:
        A function that answers None while a run of the workflow goes on, else the error to raise.
    """

    async def reason() -> MusterError | None:
        try:
            described = await client.get_workflow_handle(workflow_id).describe()
            if described.status in RUNNING:
                return None
            # Of this run: one that was started since has no result yet.
            ended = client.get_workflow_handle(workflow_id, run_id=described.run_id)
            await ended.result(follow_runs=False)
        except WorkflowFailureError as error:
            return _broken_off(coded(error), session)
        except RPCError as error:
            if error.status is not RPCStatusCode.NOT_FOUND:
                return None
            return ResourceGone(
                f"namespace {namespace!r} has no session {session!r}; "
                "`muster session ls` lists what there is"
            )
        return ResourceGone(f"session {session!r} is closed; it takes no more commands")

    return reason


def _broken_off(ended: MusterError, session: str) -> MusterError:
    """Why a workflow ended without a close."""
    if isinstance(ended, StateCorrupt):
        return ended
    return ResourceGone(
        f"no workflow runs for session {session!r} ({ended.message}); unless the session was "
        f"closed, `muster session repair {session}` starts one"
    )
