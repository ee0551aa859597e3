"""The files of a journal: the active segment and the older ones, each named by its first event.

The active segment is `journal.jsonl`. A full one is renamed to `journal-<first sequence>.jsonl`
and never changed again; only whole old segments are removed, the oldest first.
"""

from __future__ import annotations

import os
import re
import stat
from bisect import bisect_right
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass

from muster.domain.errors import UnsafePath
from muster.stores.files import beneath
from muster.stores.files.journal_lines import Line, first_line, last_line, sound_end
from muster.stores.files.removal import names_in

ACTIVE = "journal.jsonl"
_SEALED = re.compile(r"journal-([0-9]{20})\.jsonl")


def sealed_name(first: int) -> str:
    """The name of the sealed segment that begins with this sequence."""
    return f"journal-{first:020}.jsonl"


def sealed_segments(folder: int) -> list[int]:
    """The first sequences of the sealed segments, in order."""
    return [int(found[1]) for name in names_in(folder) if (found := _SEALED.fullmatch(name))]


def torn_names(folder: int) -> list[str]:
    """The files that hold what was cut off, oldest first."""
    prefix = f"{ACTIVE}.torn-"
    names = [name for name in names_in(folder) if name.startswith(prefix)]
    return sorted(names, key=lambda name: (len(name), name))


@contextmanager
def opened(folder: int, name: str) -> Iterator[int]:
    """A segment's descriptor for reading; raises FileNotFoundError, UnsafePath for no file."""
    # O_NONBLOCK: opening a FIFO would wait for a writer.
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY
    file = beneath.open_beneath(folder, name, flags)
    try:
        if not stat.S_ISREG(os.fstat(file).st_mode):
            raise UnsafePath(f"{name} in the journal's folder isn't a regular file; move it away")
        yield file
    finally:
        os.close(file)


@dataclass(frozen=True, slots=True)
class Active:
    """The active segment, open, with at least one whole line; what is torn doesn't count."""

    file: int
    first: int
    size: int
    last: Line


@dataclass(frozen=True, slots=True)
class Segments:
    """The segments of a journal at one moment, for as long as its folder is open.

    Readers hold no lock: the active segment was opened before the names were read, so that a
    rotation in between shows a segment twice rather than not at all.
    """

    folder: int
    sealed: list[int]
    active: Active | None

    @property
    def firsts(self) -> list[int]:
        """The first sequence of each segment that has a line, in order."""
        return self.sealed if self.active is None else [*self.sealed, self.active.first]

    def holding(self, seq: int) -> list[int]:
        """The first sequences of the segment that holds `seq` and of those after it."""
        firsts = self.firsts
        return firsts[max(0, bisect_right(firsts, seq) - 1) :]

    @contextmanager
    def open(self, first: int) -> Iterator[tuple[int, int]]:
        """The descriptor and the length of a segment; raises FileNotFoundError when removed."""
        if self.active is not None and first == self.active.first:
            yield self.active.file, self.active.size
            return
        with opened(self.folder, sealed_name(first)) as file:
            yield file, os.fstat(file).st_size


class LastLook:
    """What was found in the active segment last, which holds for as long as the file is the same.

    For readers that ask again and again whether there is more; may be shared by threads.
    """

    def __init__(self) -> None:
        self._seen: tuple[tuple[int, ...], tuple[int, int, Line] | None] = ((), None)

    def at(self, file: int) -> Active | None:
        """The active segment in an open file, None when it has no whole line."""
        status = os.fstat(file)
        same = status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns
        seen = self._seen
        if seen[0] != same:
            self._seen = seen = same, _whole_part(file, status.st_size)
        return None if seen[1] is None else Active(file, *seen[1])


def _whole_part(file: int, length: int) -> tuple[int, int, Line] | None:
    """The segment's first sequence, where its whole part ends, and the last line of that."""
    end = sound_end(file, 0, length)
    first, last = first_line(file, 0, end), last_line(file, 0, end)
    if first is None or last is None:
        return None
    # The batch, since a segment begins with one: the first line itself may be damaged.
    return first.batch, end, last


@contextmanager
def segments(folder: int, last_look: LastLook | None = None) -> Iterator[Segments]:
    """The segments as they are now."""
    with ExitStack() as stack:
        active = None
        with suppress(FileNotFoundError):
            file = stack.enter_context(opened(folder, ACTIVE))
            active = (last_look or LastLook()).at(file)
        sealed = sealed_segments(folder)
        if active is not None and active.first in sealed:
            sealed.remove(active.first)  # rotated a moment ago: one file under both names
        yield Segments(folder, sealed, active)
