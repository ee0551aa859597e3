"""`launch.json`: what a launch is, written before its agent is started."""

from __future__ import annotations

import asyncio
import json
import os
import uuid
from pathlib import Path
from typing import Any

from muster.runtimes.acp import layout
from muster.runtimes.acp.processes import ProcessIdentity, identify

_RETRY_SECONDS = 0.5


class LaunchRecord:
    """The sidecar's own record; its existence says that an agent may have run."""

    def __init__(self, folder: Path, guard_pid: int) -> None:
        self._path = folder / layout.LAUNCH
        self.guard_pid = guard_pid
        self.incarnation = uuid.uuid4().hex
        self._content: dict[str, Any] = {
            "incarnation": self.incarnation,
            "sidecar": _as_json(identify(os.getpid())),
            "guard": _as_json(identify(guard_pid)),
        }

    def save(self, **more: Any) -> None:
        """Add facts and write the record."""
        self._content.update(more)
        layout.write_private(self._path, json.dumps(self._content, indent=1).encode() + b"\n")

    async def save_patiently(self, **more: Any) -> None:
        """The same for an agent that runs already: a full disk isn't a reason to end it."""
        while True:
            try:
                self.save(**more)
            except OSError:
                await asyncio.sleep(_RETRY_SECONDS)
            else:
                return


def recorded_processes(record: dict[str, Any]) -> list[ProcessIdentity]:
    """The sidecar and its guard, as a launch record names them."""
    found = [record.get(role) for role in ("sidecar", "guard")]
    return [ProcessIdentity(**each) for each in found if each]


def _as_json(identity: ProcessIdentity | None) -> dict[str, Any] | None:
    return identity._asdict() if identity else None
