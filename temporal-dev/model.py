"""What a development stack is asked for and what it says while it works."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from muster.client.local_stack import DEFAULT_DATA_DIR

TEMPORAL_PORT = 7233
TEMPORAL_UI_PORT = 8233
MONGO_PORT = 27017

TEST_SERVER_LACKS = ("UI", "listing and counting", "Temporal Schedules", "data after a restart")
"""What the last fallback can't do."""


class TemporalChoice(StrEnum):
    """Which Temporal server may be used; the environment's `MUSTER_TEMPORAL` names one."""

    AUTO = "auto"
    SERVER = "server"
    """A full server only: the test server is refused."""
    TEST_SERVER = "test-server"


@dataclass(frozen=True, slots=True)
class StackOptions:
    """What to start.

    A port of 0 means any free one; another number is preferred and replaced when it is taken.
    """

    data_dir: Path = DEFAULT_DATA_DIR
    temporal: TemporalChoice | None = None
    """None takes `MUSTER_TEMPORAL` of the environment, else `auto`."""
    with_temporal: bool = True
    with_mongo: bool = True
    worker: bool = True
    ui: bool = True
    in_memory: bool = False
    """Temporal keeps nothing on disk; for tests."""
    keep_agents: bool = False
    """Leave agents running when the stack stops; the next start finds them."""
    temporal_port: int = TEMPORAL_PORT
    ui_port: int = TEMPORAL_UI_PORT
    mongo_port: int = MONGO_PORT
    environ: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))


class EventKind(StrEnum):
    """What a stack says while it works."""

    STEP = "step"
    READY = "ready"
    NOTICE = "notice"
    RESTART = "restart"
    FAILED = "failed"
    STOPPING = "stopping"
    STOPPED = "stopped"


@dataclass(frozen=True, slots=True)
class StackEvent:
    """One line of progress."""

    component: str
    kind: EventKind
    message: str


OnEvent = Callable[[StackEvent], None]
