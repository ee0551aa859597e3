"""What a worker is told by its environment, beside what clients are told."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

from pydantic import Field

from muster.client.settings import ClientSettings, read_settings
from muster.domain.errors import InvalidInput


class WorkerSettings(ClientSettings):
    """Each field is also the variable `MUSTER_<FIELD>`."""

    state_root: Path = Path(".muster/state")
    """The folder that the root's sessions stand in; every worker of the root mounts it."""
    ready_file: Path | None = None
    """Made when the worker polls its queues, removed when it stops."""
    metrics_address: str | None = None
    """Where Prometheus may scrape, as host:port."""
    roles: frozenset[str] = frozenset({"root", "runtime"})
    """`root`: workflows and documents; `runtime`: the agents of this host."""
    deployment: str | None = Field(default=None, pattern=r"^[^.]+\.[^.]+$")
    """Name and build of this worker's deployment as `name.build`: with it workflows stay on the
    build they began on (PINNED) until they end or continue as new; without it no versioning."""
    max_threads: int = Field(default=64, ge=4)
    """Threads for blocking file work, and with it the most activities at a time."""
    cached_workflows: int = Field(default=1_000, ge=0)
    """How many workflows stay in memory between their tasks; with 0 every task replays."""
    graceful_seconds: float = Field(default=10.0, ge=0)
    """How long activities may finish after a stop; a container's grace must be longer."""

    @property
    def graceful_shutdown_timeout(self) -> timedelta:
        """`graceful_seconds` for the SDK."""
        return timedelta(seconds=self.graceful_seconds)


def load_worker_settings() -> WorkerSettings:
    """The settings of this process's environment.

    Raises:
        InvalidInput: A variable isn't usable; the text names each.
    """
    settings = read_settings(WorkerSettings)
    unknown = settings.roles - {"root", "runtime"}
    if unknown or not settings.roles:
        raise InvalidInput(
            f"MUSTER_ROLES has {sorted(unknown) or 'nothing'}; use root, runtime or both"
        )
    return settings
