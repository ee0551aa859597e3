"""Named fault points at commit boundaries.

Production code calls `fault_point(NAME)` after a write and before the answer to it. Nothing
happens unless a test armed the name, in this process by `arm` or for a child process through
the environment variable `MUSTER_FAULTS` (read by entry points with `arm_from_environment`).
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Mapping

FAULT_POINTS: dict[str, str] = {
    "files.temporary_written": "a temporary file is complete and synced, not yet renamed",
    "files.renamed": "a file has its final name, its folder isn't synced yet",
    "creation.claimed": "the creation claim is on disk, nothing is launched",
    "launch.before_spawn": "the runtime was asked for the launch and doesn't have it",
    "launch.spawned": "the sidecar process exists, its answer isn't read yet",
    "launch.answered": "the launch is known to the worker, not to the history",
    "creation.document_written": "the first document is on disk, its session doesn't run yet",
    "creation.receipt_written": "the receipt is complete, the session's workflow isn't started",
    "session.committed": "a session document is on disk, its commit isn't answered",
    "deliver.sent": "the runtime has the prompt, the worker has no receipt",
    "answer.sent": "the runtime has the answer, the worker has no receipt",
    "interrupt.sent": "the runtime has the interrupt, the worker has no receipt",
    "journal.appended": "events are in the journal, the document doesn't say so",
    "summary.written": "the MongoDB summary is written, not yet answered",
    "close.runtime_closed": "the runtime is closed, nothing is removed",
    "close.tombstone_written": "the tombstone is on disk, the document is still there",
    "close.ended": "the session's last event is owed and published, nothing is removed",
    "close.part_removed": "a part of the session's folder is gone, the document isn't",
    "close.document_removed": "the document is gone, the closer has no answer",
    "close.tombstone_completed": "the answer is on disk, readers still see the session",
}
"""Every fault point with the state the world is in there."""

Action = Callable[[], None]
_armed: dict[str, Action] = {}


def fault_point(name: str) -> None:
    """Run the action armed for `name`; without one, return at once."""
    if _armed:
        action = _armed.get(name)
        if action is not None:
            action()


def arm(name: str, action: Action, *, hit: int = 1) -> None:
    """Run `action` the `hit`-th time that `name` is passed, then disarm it.

    Raises KeyError for a name that is not in `FAULT_POINTS`.
    """
    FAULT_POINTS[name]
    remaining = hit

    def countdown() -> None:
        nonlocal remaining
        remaining -= 1
        if remaining == 0:
            _armed.pop(name, None)
            action()

    _armed[name] = countdown


def disarm_all() -> None:
    """Forget every armed fault point."""
    _armed.clear()


def kill_process() -> None:
    """End this process as a power cut would: no handler, no flush."""
    os.kill(os.getpid(), signal.SIGKILL)


def stop_process() -> None:
    """Freeze this process until somebody sends SIGCONT.

    Sent to this thread: sent to the process, another thread may take it while this one goes on.
    """
    signal.pthread_kill(threading.get_ident(), signal.SIGSTOP)


_ACTIONS: dict[str, Action] = {"kill": kill_process, "stop": stop_process}


def arm_from_environment(environment: Mapping[str, str] = os.environ) -> None:
    """Arm what `MUSTER_FAULTS` lists, as `name[:hit]=kill|stop` separated by commas."""
    for item in filter(None, environment.get("MUSTER_FAULTS", "").split(",")):
        point, _, action = item.partition("=")
        name, _, hit = point.partition(":")
        arm(name, _ACTIONS[action], hit=int(hit or 1))
