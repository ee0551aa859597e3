"""Bringing a journal and its index to one state before an append, whatever the last writer left.

The writer may have died between any two calls, or the machine may have lost its power: the last
batch can be torn, the index behind, and, after a copy was put back, ahead.
"""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass

from muster.stores.files import calls
from muster.stores.files.journal_index import IndexBroken, JournalIndex, Mark, digest_of
from muster.stores.files.journal_lines import lines, sound_end
from muster.stores.files.journal_segments import (
    ACTIVE,
    Segments,
    opened,
    sealed_name,
    segments,
    torn_names,
)
from muster.stores.files.private import PrivateTree

_TORN_LIMIT = 1 << 40


@dataclass(frozen=True, slots=True)
class Tail:
    """Where the next append begins."""

    last_seq: int
    first: int
    """The first sequence of the active segment; that of the next event when it is empty."""
    size: int
    """The length of the active segment in bytes, all of it whole lines on the disk."""


class Recovery:
    """Settles the journal in `path` beneath the tree; for the holder of the folder's lock."""

    def __init__(self, tree: PrivateTree, path: str, index: JournalIndex) -> None:
        self._tree = tree
        self._path = path
        self._index = index
        self._sealed_known = 0

    def settle(self, folder: int) -> Tail:
        """Cut off what is torn, cover in the index what it lacks, and say where the end is.

        What is left is on the disk. Raises IndexBroken when the index has to be discarded first.
        """
        self._index.open(folder)
        mark = self._index.mark()
        if mark is not None and _ends_at(folder, mark):
            return Tail(mark.seq, mark.segment, mark.end)
        if mark is not None and not _in_journal(folder, mark):
            raise IndexBroken("it ends at a batch that isn't in the journal")
        self._cut_torn(folder, mark)
        with segments(folder) as found:
            covered = self._cover(found, mark)
            if covered != mark or self._newly_sealed(found):
                # Their writer may have died before it synced them.
                if found.active is not None:
                    calls.current().fsync(found.active.file)
                calls.current().fsync(folder)
            return _tail(found, covered)

    def sealed(self, first: int) -> None:
        """Take note that this process made the name of a sealed segment durable."""
        self._sealed_known = first

    def _newly_sealed(self, found: Segments) -> bool:
        newest = found.sealed[-1] if found.sealed else 0
        known, self._sealed_known = self._sealed_known, newest
        return newest != known

    # Torn ends

    def _cut_torn(self, folder: int, mark: Mark | None) -> None:
        with suppress(FileNotFoundError), opened(folder, ACTIVE) as file:
            size = os.fstat(file).st_size
            # What the index covers was acknowledged: never cut, however damaged it is now.
            start = mark.end if mark is not None and _holds(file, mark) else 0
            end = sound_end(file, start, size)
            if end < size:
                self._set_aside(folder, os.pread(file, size - end, end))
                self._truncate(folder, end)

    def _set_aside(self, folder: int, torn: bytes) -> None:
        names = torn_names(folder)
        number = int(names[-1].rpartition("-")[2]) if names else 0
        kept = self._tree.read(f"{self._path}/{names[-1]}", limit=_TORN_LIMIT) if names else None
        if kept == torn:
            return  # whoever kept it died before the cut
        name = f"{self._path}/{ACTIVE}.torn-{number + 1}"
        self._tree.create(name, torn, limit=_TORN_LIMIT)

    def _truncate(self, folder: int, end: int) -> None:
        file = calls.current().append_to(folder, ACTIVE)
        try:
            calls.current().truncate(file, end)
            calls.current().fsync(file)
        finally:
            os.close(file)

    # The index

    def _cover(self, found: Segments, mark: Mark | None) -> Mark | None:
        firsts = found.firsts if mark is None else found.holding(mark.segment)
        for first in firsts:
            with found.open(first) as (file, size):
                start = mark.end if mark is not None and mark.segment == first else 0
                mark = self._index.cover(first, lines(file, start, size)) or mark
        return mark


def _holds(file: int, mark: Mark) -> bool:
    """Whether the batch that the mark is of stands in this file."""
    batch = os.pread(file, mark.end - mark.offset, mark.offset)
    return digest_of(batch) == mark.digest


def _ends_at(folder: int, mark: Mark) -> bool:
    with suppress(FileNotFoundError), opened(folder, ACTIVE) as file:
        return os.fstat(file).st_size == mark.end and _holds(file, mark)
    return False


def _in_journal(folder: int, mark: Mark) -> bool:
    for name in (ACTIVE, sealed_name(mark.segment)):
        with suppress(FileNotFoundError), opened(folder, name) as file:
            if _holds(file, mark):
                return True
    return False


def _tail(found: Segments, covered: Mark | None) -> Tail:
    last_seq = 0 if covered is None else covered.seq
    if found.active is None:
        return Tail(last_seq, last_seq + 1, 0)
    return Tail(last_seq, found.active.first, found.active.size)
