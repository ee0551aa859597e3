"""How a running development stack is found and what it says of itself.

Its supervisor holds a kernel lock for as long as it lives; the state file counts only while the
lock is held, so a killed supervisor leaves nothing that could be believed.
"""

from __future__ import annotations

import fcntl
import re
from enum import StrEnum
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

DEFAULT_DATA_DIR = Path(".muster")
LOCK_NAME = "stack.lock"
STATE_NAME = "stack.json"


class TemporalKind(StrEnum):
    """What kind of Temporal server a stack uses."""

    EXTERNAL = "external"
    SERVER = "server"
    TEST_SERVER = "test-server"


class _Facts(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")


class Attempt(_Facts):
    """Where one component was looked for, and what came of it."""

    component: str
    where: str
    outcome: str
    chosen: bool = False


class TemporalInfo(_Facts):
    """The Temporal server that a stack uses."""

    kind: TemporalKind
    address: str
    namespace: str
    where: str
    ui_url: str | None = None
    missing: tuple[str, ...] = ()
    """What this kind of server can't do, in words."""


class MongoInfo(_Facts):
    """The MongoDB server that a stack uses."""

    uri: str
    where: str


class ProcessInfo(_Facts):
    """A process that a stack started."""

    name: str
    pid: int
    started: str | None
    """Start time as the kernel counts it, so that a reused pid isn't mistaken for it."""
    log: str
    restarts: int = 0


class StackInfo(_Facts):
    """A development stack as its state file describes it."""

    state: str
    """starting, running or stopping."""
    pid: int
    data_dir: str
    state_root: str
    temporal: TemporalInfo | None = None
    mongo: MongoInfo | None = None
    worker: bool = False
    processes: tuple[ProcessInfo, ...] = ()
    attempts: tuple[Attempt, ...] = ()

    def redacted(self) -> StackInfo:
        """The same without the password of a MongoDB URI: fit to be printed."""
        if self.mongo is None:
            return self
        shown = self.mongo.model_copy(update={"uri": redact_uri(self.mongo.uri)})
        return self.model_copy(update={"mongo": shown})


def redact_uri(uri: str) -> str:
    """`uri` with `***` for a password."""
    return re.sub(r"(://[^:/@]*):[^@/]*@", r"\1:***@", uri)


def read_stack(data_dir: Path = DEFAULT_DATA_DIR) -> StackInfo | None:
    """The stack that runs with `data_dir` now; None when none does or it isn't described yet."""
    try:
        with (data_dir / LOCK_NAME).open() as lock:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return read_state(data_dir)
    except OSError:
        return None
    return None


def read_state(data_dir: Path) -> StackInfo | None:
    """What the state file says, whether or not its stack still runs."""
    try:
        return StackInfo.model_validate_json((data_dir / STATE_NAME).read_bytes())
    except (OSError, ValidationError):
        return None


def find_stack(start: Path) -> StackInfo | None:
    """The running stack of `start` or the nearest folder above it that has one."""
    for folder in (start, *start.parents):
        found = read_stack(folder / DEFAULT_DATA_DIR)
        if found is not None:
            return found
    return None
