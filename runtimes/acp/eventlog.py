"""The sidecar's append-only event log: one signed envelope a line.

What a workflow applies is on the disk before it can be read; chunks of output are for live
viewers and aren't synced one by one. When the disk refuses a write, events wait in memory and
are written as soon as it takes them: an event is never skipped and never reordered.
"""

from __future__ import annotations

import asyncio
import json
import os
from array import array
from base64 import b64decode
from bisect import bisect_right
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from muster.runtimes.acp import layout
from muster.runtimes.signing import EVENT_TYPE, Signer

CHUNK = "message.chunk"
PAGE_BYTES = 1024 * 1024
"""After which a page is full: it has to fit a Temporal payload."""
_RETRY_SECONDS = 0.5


class Binding(NamedTuple):
    """What every event of a launch is bound to."""

    namespace_id: str
    session_id: str
    incarnation: str


class Page(NamedTuple):
    """Envelopes in order, and the sequence to go on from."""

    lines: list[str]
    cursor: int


class EventLog:
    """Appends and reads the events of one launch; made once, when the launch begins."""

    def __init__(self, folder: Path, signer: Signer, binding: Binding) -> None:
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        self._descriptor = os.open(folder / layout.EVENTS, flags, 0o600)
        self._signer = signer
        self._binding = binding
        self._ends = array("Q", [0])
        """Where the line of each sequence ends; sequence 0 stands for the empty file."""
        self._lasting = array("Q")
        """Sequences that aren't chunks."""
        self._waiting: list[tuple[bytes, bool]] = []
        self._grown = asyncio.Event()

    @property
    def last(self) -> int:
        """The sequence of the last readable event."""
        return len(self._ends) - 1

    def append(self, event_type: str, /, **fields: Any) -> None:
        """Sign an event as the next in order and write it, synced unless it is a chunk."""
        seq = self.last + len(self._waiting) + 1
        at = datetime.now(UTC).isoformat(timespec="milliseconds")
        body = {**self._binding._asdict(), "seq": seq}
        body["event"] = {"type": event_type, "seq": seq, "at": at, **fields}
        content = json.dumps(body, separators=(",", ":"), ensure_ascii=False).encode()
        line = self._signer.sign(EVENT_TYPE, content) + b"\n"
        self._waiting.append((line, event_type != CHUNK))
        self._flush()

    async def written(self) -> None:
        """Return once everything appended is readable."""
        while self._waiting:
            await self._grown.wait()

    async def wait_beyond(self, after: int, *, include_chunks: bool, seconds: float) -> None:
        """Return once there is an event after `after`, or when `seconds` have passed."""
        try:
            async with asyncio.timeout(seconds):
                while not self._has_beyond(after, include_chunks):
                    await self._grown.wait()
        except TimeoutError:
            return

    def read(self, after: int, *, limit: int, include_chunks: bool) -> Page:
        """At most `limit` envelopes, and about `PAGE_BYTES`, after the sequence `after`."""
        lines: list[str] = []
        size = 0
        for seq in self._beyond(after, include_chunks):
            lines.append(self._line(seq))
            size += len(lines[-1])
            if len(lines) >= limit or size >= PAGE_BYTES:
                return Page(lines, seq)
        return Page(lines, max(after, self.last))

    def _has_beyond(self, after: int, include_chunks: bool) -> bool:
        return next(self._beyond(after, include_chunks), None) is not None

    def _beyond(self, after: int, include_chunks: bool) -> Iterator[int]:
        if include_chunks:
            return iter(range(after + 1, self.last + 1))
        first = bisect_right(self._lasting, after)
        return (self._lasting[index] for index in range(first, len(self._lasting)))

    def _line(self, seq: int) -> str:
        start, end = self._ends[seq - 1], self._ends[seq]
        return os.pread(self._descriptor, end - start - 1, start).decode(errors="replace")

    def _flush(self) -> None:
        if not self._waiting:
            return
        end = self._ends[-1]
        try:
            _write_at(self._descriptor, b"".join(line for line, _ in self._waiting), end)
            if any(lasting for _, lasting in self._waiting):
                os.fdatasync(self._descriptor)
        except OSError:
            asyncio.get_running_loop().call_later(_RETRY_SECONDS, self._flush)
            return
        for line, lasting in self._waiting:
            self._ends.append(self._ends[-1] + len(line))
            if lasting:
                self._lasting.append(self.last)
        self._waiting.clear()
        self._grown.set()
        self._grown = asyncio.Event()


def read_ended(folder: Path, after: int, *, limit: int, include_chunks: bool) -> Page:
    """The same page from the log of a launch whose sidecar is gone.

    The chunks are left out by what their unverified payload says, which decides only what is
    shown; an unfinished last line was never readable and is passed over.
    """
    lines: list[str] = []
    size, cursor = 0, after
    for cursor, line in _finished_lines(folder, after):  # noqa: B007 - the last one counts
        if include_chunks or not _is_chunk(line):
            lines.append(line)
            size += len(line)
        if len(lines) >= limit or size >= PAGE_BYTES:
            break
    return Page(lines, cursor)


def _finished_lines(folder: Path, after: int) -> Iterator[tuple[int, str]]:
    try:
        file = (folder / layout.EVENTS).open("rb")
    except FileNotFoundError:
        return
    with file:
        for seq, line in enumerate(file, start=1):
            if seq > after and line.endswith(b"\n"):
                yield seq, line[:-1].decode(errors="replace")


def _is_chunk(line: str) -> bool:
    try:
        event = json.loads(b64decode(json.loads(line)["payload"]))["event"]
        return bool(event["type"] == CHUNK)
    except (ValueError, KeyError, TypeError):
        return False


def _write_at(descriptor: int, content: bytes, offset: int) -> None:
    """Write all of `content`, in the place of what an earlier failed attempt left there."""
    os.ftruncate(descriptor, offset)
    view = memoryview(content)
    while view:
        written = os.pwrite(descriptor, view, offset)
        view, offset = view[written:], offset + written
