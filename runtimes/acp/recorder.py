"""Writes events in order and joins small pieces of output into one event."""

from __future__ import annotations

import asyncio
from typing import Any

from muster.runtimes.acp.eventlog import CHUNK, EventLog

_CHUNK_CHARACTERS = 4 * 1024
_CHUNK_SECONDS = 0.05


class Recorder:
    """The writer of one launch's events."""

    def __init__(self, log: EventLog) -> None:
        self._log = log
        self._turn_id = ""
        self._pieces: list[str] = []
        self._size = 0
        self._timer: asyncio.TimerHandle | None = None

    def record(self, event_type: str, /, **fields: Any) -> None:
        """Append an event after all output that came before it."""
        self._flush()
        self._log.append(event_type, **fields)

    def output(self, turn_id: str, text: str) -> None:
        """Take a piece of a turn's output; it is written within 50 ms or with 4 KiB more."""
        self._turn_id = turn_id
        self._pieces.append(text)
        self._size += len(text)
        if self._size >= _CHUNK_CHARACTERS:
            self._flush()
        elif self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(_CHUNK_SECONDS, self._flush)

    def _flush(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if not self._pieces:
            return
        text = "".join(self._pieces)
        self._pieces.clear()
        self._size = 0
        self._log.append(CHUNK, turn_id=self._turn_id, text=text)
