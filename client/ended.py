"""Why nobody answers a session's command: what has become of the workflow that would."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from temporalio.client import WorkflowExecutionStatus, WorkflowFailureError, WorkflowHandle
from temporalio.service import RPCError, RPCStatusCode

from muster.client.failures import coded
from muster.domain.errors import MusterError, ResourceGone, StateCorrupt

RUNNING = frozenset({WorkflowExecutionStatus.RUNNING, WorkflowExecutionStatus.CONTINUED_AS_NEW})


def reason_of_end(
    handle: WorkflowHandle[object, object], namespace: str, session: str
) -> Callable[[], Awaitable[MusterError | None]]:
    """What `sending.send` asks when an update has met the end of a run.

    Args:
        handle: The session's workflow, of no particular run.

    Returns:
        A function that answers None while a run of the workflow goes on, else the error to raise.
    """

    async def reason() -> MusterError | None:
        try:
            described = await handle.describe()
        except RPCError as error:
            if error.status is not RPCStatusCode.NOT_FOUND:
                return None
            return ResourceGone(
                f"namespace {namespace!r} has no session {session!r}; "
                "`muster session ls` lists what there is"
            )
        if described.status in RUNNING:
            return None
        if described.status is WorkflowExecutionStatus.COMPLETED:
            return ResourceGone(f"session {session!r} is closed; it takes no more commands")
        return await _broken_off(handle, session)

    return reason


async def _broken_off(handle: WorkflowHandle[object, object], session: str) -> MusterError:
    """Why a workflow ended without a close."""
    try:
        await handle.result()
    except (RPCError, WorkflowFailureError) as error:
        ended = coded(error)
    else:  # it was started again meanwhile, and closed
        return ResourceGone(f"session {session!r} is closed; it takes no more commands")
    if isinstance(ended, StateCorrupt):
        return ended
    return ResourceGone(
        f"no workflow runs for session {session!r} ({ended.message}); unless the session was "
        f"closed, `muster session repair {session}` starts one"
    )
