"""The journal's line format, and finding whole lines in a file that may be damaged.

A line is the event's JSON object with two more members at its end: `batch`, the sequence of the
first event that was written together with it, and `crc32` over all before that member. The
checksum tells a whole line from any damage; the batch tells what a power cut can have left
half-written (only the last batch) from damage to what was acknowledged long ago.
"""

from __future__ import annotations

import json
import os
import re
import zlib
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

from muster.domain.errors import InvalidInput, LimitExceeded
from muster.domain.public_events import PublicEvent
from muster.stores.files import limits

LINE_LIMIT = limits.SESSION_DOCUMENT
"""An event comes from a session's document, so its line is never larger than that."""

_HEAD = re.compile(rb'\{"seq":([1-9][0-9]{0,17}),"public_event_id":"([A-Za-z0-9_.:-]{1,512})",')
_TAIL = re.compile(rb',"batch":([1-9][0-9]{0,17}),"crc32":"([0-9a-f]{8})"\}')
_TAIL_BYTES = 64
_FIRST_CHUNK = 16 * 1024
_LARGEST_CHUNK = 1 << 20
_SEEK_WINDOW = 16 * 1024
_OUR_MEMBERS = ("batch", "crc32")


@dataclass(frozen=True, slots=True)
class Line:
    """A whole line and where it stands in its file, in bytes, `end` after its newline."""

    seq: int
    batch: int
    public_event_id: str
    offset: int
    end: int


def encode(event: PublicEvent, batch: int) -> bytes:
    """The event's line with its newline.

    Raises InvalidInput for a number that JSON doesn't have, LimitExceeded past `LINE_LIMIT`.
    """
    members = {"seq": event.seq, **event.model_dump(mode="python", exclude={"seq"})}
    try:
        text = json.dumps(members, separators=(",", ":"), allow_nan=False)
    except ValueError as error:
        raise InvalidInput(
            f"event {event.public_event_id} can't be written as JSON ({error}); "
            "leave NaN and infinities out of its payload"
        ) from error
    covered = f'{text[:-1]},"batch":{batch}'.encode("ascii")
    line = b'%s,"crc32":"%08x"}\n' % (covered, zlib.crc32(covered))
    if len(line) > LINE_LIMIT:
        raise LimitExceeded(
            f"event {event.public_event_id} would take {len(line)} bytes of the journal, "
            f"{LINE_LIMIT} are allowed; nothing was written",
            limit=LINE_LIMIT,
            actual=len(line),
        )
    return line


def decode(raw: bytes) -> PublicEvent:
    """The event of a line that `inspect` found whole."""
    members = json.loads(raw)
    for name in _OUR_MEMBERS:
        del members[name]
    return PublicEvent.model_validate(members)


def inspect(raw: bytes, offset: int) -> Line | None:
    """What stands in a line with its newline at `offset`; None when it is damaged or torn."""
    head = _HEAD.match(raw)
    start = raw.rfind(b',"batch":', -_TAIL_BYTES)
    tail = _TAIL.fullmatch(raw, start, len(raw) - 1) if start > 0 and raw[-1:] == b"\n" else None
    if head is None or tail is None:
        return None
    if zlib.crc32(raw[: tail.end(1)]) != int(tail[2], 16):
        return None
    return Line(int(head[1]), int(tail[1]), head[2].decode(), offset, offset + len(raw))


def pieces(file: int, start: int, end: int) -> Iterator[tuple[int, bytes]]:
    """What stands between newlines in bytes `start` to `end`, each with its offset and newline.

    The last one lacks the newline when the bytes end without.
    """
    rest, at, chunk = b"", start, _FIRST_CHUNK
    position = start
    while position < end:
        data = os.pread(file, min(chunk, end - position), position)
        if not data:
            break
        position += len(data)
        chunk = min(chunk * 2, _LARGEST_CHUNK)
        *whole, rest = (rest + data).split(b"\n")
        for each in whole:
            yield at, each + b"\n"
            at += len(each) + 1
    if rest:
        yield at, rest


def lines(file: int, start: int, end: int) -> Iterator[tuple[Line, bytes]]:
    """The whole lines in bytes `start` to `end` with their bytes; damage is passed over."""
    for offset, raw in pieces(file, start, end):
        line = inspect(raw, offset)
        if line is not None:
            yield line, raw


def first_line(file: int, start: int, end: int) -> Line | None:
    """The first whole line in bytes `start` to `end`."""
    return next((line for line, _ in lines(file, start, end)), None)


def last_line(file: int, start: int, end: int) -> Line | None:
    """The last whole line in bytes `start` to `end`."""
    length = _FIRST_CHUNK
    while True:
        begin = max(start, end - length)
        newest = deque(lines(file, begin, end), maxlen=1)
        if newest or begin == start:
            return newest[0][0] if newest else None
        length *= 2


def position_after(file: int, seq: int, end: int, start: int = 0) -> int:
    """Where the last whole line up to `seq` ends, `start` when there is none; logarithmic."""
    low, high = start, end
    while high - low > _SEEK_WINDOW:
        middle = (low + high) // 2
        line = first_line(file, middle, high)
        if line is None or line.seq > seq:
            high = middle
        else:
            low = line.end
    for line, _ in lines(file, low, end):
        if line.seq > seq:
            break
        low = line.end
    return low


def sound_end(file: int, start: int, end: int) -> int:
    """Where the bytes from `start` stop being trustworthy: `end`, or where a torn part begins.

    Torn is what follows the last whole line, and the last batch from the first place where it
    misses blocks, which read as zeros: a power cut keeps some of a write's blocks and not others.
    Other damage among whole lines is not torn, and readers pass over it.
    """
    last = last_line(file, start, end)
    if last is None:
        return start
    sound = position_after(file, last.batch - 1, last.end, start)
    before = last_line(file, start, sound)
    if before is not None and before.seq + 1 < last.batch:
        return last.end  # what is damaged next is of an earlier batch, which was synced
    for offset, raw in pieces(file, sound, last.end):
        if inspect(raw, offset) is not None:
            sound = offset + len(raw)
        elif b"\0" in raw:
            return sound
    return last.end
