"""The journal of a namespace's public events: one total order, each event once by its id.

The rule is that of the system Muster replaces: a session owes its events, and removes none before
it is in the journal. So an append is repeatable: an id that the journal has keeps its sequence,
also when the writer died before it could say so, and whichever process asks again.

Events are lines of `events/journal.jsonl`; older ones are in segments beside it. A batch is one
write and one sync, under the lock of the folder. All methods block: call them in a thread.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TypeVar

from muster.domain.errors import InvalidInput, LimitExceeded, StorageUnavailable
from muster.domain.faults import fault_point
from muster.domain.public_events import EVENT_BATCH, PublicEvent, UnsequencedEvent
from muster.stores.files import calls
from muster.stores.files.failures import coded
from muster.stores.files.journal_index import IndexBroken, JournalIndex, Place
from muster.stores.files.journal_lines import Line, decode, encode, inspect, pieces
from muster.stores.files.journal_reading import PAGE_EVENTS, JournalPage, newest, page_of
from muster.stores.files.journal_recovery import Recovery, Tail
from muster.stores.files.journal_segments import (
    ACTIVE,
    LastLook,
    Segments,
    sealed_name,
    segments,
)
from muster.stores.files.private import PrivateTree

SEGMENT_BYTES = 16 << 20
TURN_SECONDS = 8.0
"""Longer than all appends that may be waiting take; shorter than the activity that waits."""
_LOOKS = 8

T = TypeVar("T")


class Journal:
    """One namespace's journal; may be shared by threads, and by processes through its folder.

    Args:
        tree: The tree the journal is in.
        folder: Its folder beneath the tree, made by the first append.
        segment_bytes: A segment is closed by the batch that makes it this long.
        turn_seconds: How long a thread waits for the others of its process.
    """

    def __init__(
        self,
        tree: PrivateTree,
        folder: str = "events",
        *,
        segment_bytes: int = SEGMENT_BYTES,
        turn_seconds: float = TURN_SECONDS,
    ) -> None:
        self._tree = tree
        self._folder = folder
        self._segment_bytes = segment_bytes
        self._index = JournalIndex(tree.root / folder)
        self._recovery = Recovery(tree, folder, self._index)
        self._last_look = LastLook()
        self._turn = threading.Lock()
        self._turn_seconds = turn_seconds
        self._synced = 0
        """The newest sequence that this process has brought to the disk."""

    def append(self, events: Sequence[UnsequencedEvent]) -> list[PublicEvent]:
        """Append those of the events that the journal doesn't have; all with their sequences.

        They are on the disk, in the order given, when this returns. Of two with the same id the
        first counts. Raises LimitExceeded for more than `EVENT_BATCH` or one too large and
        InvalidInput for one that isn't JSON, with nothing written, and StorageUnavailable when
        the filesystem refuses: the same call may then be repeated.
        """
        if len(events) > EVENT_BATCH:
            raise LimitExceeded(
                f"{len(events)} events were given to one append, {EVENT_BATCH} are allowed; "
                "append them in parts",
                limit=EVENT_BATCH,
                actual=len(events),
            )
        if not events:
            return []
        with self._locked("append to") as folder:
            tail, known = self._settled(folder, events)
            fresh: list[PublicEvent] = []
            for each in events:
                if each.public_event_id not in known:
                    event = _with_seq(each, tail.last_seq + len(fresh) + 1)
                    known[event.public_event_id] = event
                    fresh.append(event)
            if fresh:
                self._write(folder, tail, fresh)
        fault_point("journal.appended")
        return [known[each.public_event_id] for each in events]

    def read(self, after: int, limit: int = PAGE_EVENTS) -> JournalPage:
        """The events after sequence `after`, at most `limit` and at most `PAGE_EVENTS`.

        Takes no lock and needs no right to write. Raises ResyncNeeded when some of them were
        removed, InvalidInput for a negative `after` or a `limit` below 1.
        """
        if after < 0 or limit < 1:
            raise InvalidInput(
                f"can't read {limit} events after {after}; positions begin at 0, limits at 1"
            )
        return self._looking(
            lambda found: page_of(found, after, min(limit, PAGE_EVENTS), self._synced),
            JournalPage(events=(), next_after=after, first_available=1, last=0),
        )

    def last_seq(self) -> int:
        """The newest event's sequence, 0 when there is none. Takes no lock."""
        return self._looking(lambda found: line.seq if (line := newest(found)) else 0, 0)

    def remove_before(self, seq: int) -> int:
        """Remove the old segments whose events all come before `seq`; the newest always stays.

        Returns the first sequence that is left, 1 when the journal is empty.
        """
        with self._locked("remove from") as folder:
            self._settled(folder, ())
            with segments(folder) as found:
                firsts = found.firsts
            while len(firsts) > 1 and firsts[1] <= seq:
                calls.current().unlink(folder, sealed_name(firsts.pop(0)))
                # One by one: after a power cut no gap may be left among those that stay.
                calls.current().fsync(folder)
            first = firsts[0] if firsts else 1
            self._index.forget_before(first)
        return first

    def close(self) -> None:
        """Let go of the index's file when no thread uses it; the next append opens it again."""
        self._index.close()

    # Writing

    @contextmanager
    def _locked(self, doing: str) -> Iterator[int]:
        # A frozen process keeps its lock. One thread waits for it in the kernel's fair order; the
        # others give up in time, or they would take every thread that this process has.
        if not self._turn.acquire(timeout=self._turn_seconds):
            raise StorageUnavailable(
                f"can't {doing} {self._where}: another process or thread held it for "
                f"{self._turn_seconds:g} s; try again, and see `lslocks` for the holder if it stays"
            )
        try:
            with (
                self._tree.lock(self._folder),
                coded(doing, self._where),
                self._tree.folders.open(self._folder, create=True) as folder,
            ):
                yield folder
        finally:
            self._turn.release()

    def _settled(
        self, folder: int, events: Sequence[UnsequencedEvent]
    ) -> tuple[Tail, dict[str, PublicEvent]]:
        """Where the journal ends, and those of the events that it has."""
        reason: IndexBroken | None = None
        for _ in range(2):
            try:
                tail = self._recovery.settle(folder)
                return tail, self._known(folder, events)
            except IndexBroken as error:
                reason = error
                self._index.discard(folder)
        raise StorageUnavailable(
            f"the index of {self._where} stays unusable when made anew: {reason}; check the disk"
        ) from reason

    def _known(self, folder: int, events: Sequence[UnsequencedEvent]) -> dict[str, PublicEvent]:
        places = self._index.find([each.public_event_id for each in events])
        if not places:
            return {}
        with segments(folder) as found:
            return {
                each.public_event_id: _event_at(found, each, place)
                for each in events
                if (place := places.get(each.public_event_id)) is not None
            }

    def _write(self, folder: int, tail: Tail, events: Sequence[PublicEvent]) -> None:
        batch = events[0].seq
        encoded = [encode(event, batch) for event in events]
        if tail.size >= self._segment_bytes:
            tail = self._rotate(folder, tail)  # the writer that filled it died before
        file = calls.current().append_to(folder, ACTIVE)
        try:
            self._write_durably(file, tail.size, b"".join(encoded))
        finally:
            os.close(file)
        if tail.size == 0:
            calls.current().fsync(folder)
        placed = _placed(events, encoded, tail.size)
        with suppress(IndexBroken, StorageUnavailable):
            # Acknowledged all the same: the next append finds that the index is behind.
            self._index.cover(tail.first, placed)
        self._synced = events[-1].seq
        end = placed[-1][0].end
        if end >= self._segment_bytes:
            self._rotate(folder, Tail(events[-1].seq, tail.first, end))

    def _write_durably(self, file: int, start: int, data: bytes) -> None:
        try:
            calls.current().write(file, data)
        except OSError:
            # A reader may have seen the lines that are whole, so they keep their sequences.
            written = os.fstat(file).st_size - start
            self._cut(file, start + data.rfind(b"\n", 0, written) + 1)
            raise
        try:
            calls.current().fsync(file)
        except OSError:
            # The system may take these bytes for synced now, so they are to be written again.
            self._cut(file, start)
            raise

    def _cut(self, file: int, end: int) -> None:
        with suppress(OSError):  # the next append looks at the end again
            calls.current().truncate(file, end)

    def _rotate(self, folder: int, tail: Tail) -> Tail:
        calls.current().rename(folder, ACTIVE, sealed_name(tail.first))
        # Before a new active segment is made: it must never be there without this name.
        calls.current().fsync(folder)
        self._recovery.sealed(tail.first)
        return Tail(tail.last_seq, tail.last_seq + 1, 0)

    # Reading

    def _looking(self, look: Callable[[Segments], T], empty: T) -> T:
        with coded("read", self._where):
            try:
                with self._tree.folders.open(self._folder) as folder:
                    for _ in range(_LOOKS):
                        # A segment that was named and is gone: it was removed or renamed meanwhile.
                        with (
                            suppress(FileNotFoundError),
                            segments(folder, self._last_look) as found,
                        ):
                            return look(found)
            except FileNotFoundError:
                return empty
        raise StorageUnavailable(
            f"segments of {self._where} were removed each time it was read; try again"
        )

    @property
    def _where(self) -> str:
        return str(self._tree.root / self._folder)


def _with_seq(event: UnsequencedEvent, seq: int) -> PublicEvent:
    # Its other members were checked when it was made.
    return PublicEvent.model_construct(**{**dict(event), "seq": seq})


def _event_at(found: Segments, event: UnsequencedEvent, place: Place) -> PublicEvent:
    """The event as the journal has it; as given where its line was damaged since."""
    if place.segment not in found.firsts:
        raise IndexBroken(f"segment {place.segment} isn't there")
    with found.open(place.segment) as (file, size):
        offset, raw = next(pieces(file, place.offset, size), (place.offset, b""))
    line = inspect(raw, offset)
    if line is None:
        return _with_seq(event, place.seq)
    if (line.seq, line.public_event_id) != (place.seq, event.public_event_id):
        raise IndexBroken(f"event {place.seq} isn't where it should be")
    return decode(raw)


def _placed(
    events: Sequence[PublicEvent], encoded: Sequence[bytes], start: int
) -> list[tuple[Line, bytes]]:
    """The lines as they stand in the file after a write at `start`."""
    placed = []
    for event, raw in zip(events, encoded, strict=True):
        end = start + len(raw)
        placed.append((Line(event.seq, events[0].seq, event.public_event_id, start, end), raw))
        start = end
    return placed
