"""Which public event ids a journal has: a cache beside it, so that an append needn't read it.

SQLite writes these files by its own calls, not by those of `calls.py`. That is safe because
nothing here is the only copy: the journal is the truth, and the index says up to which batch it
covers it. It is committed after the journal was synced. What it lacks is read from the journal;
when the batch it ends at isn't in the journal, or the file is missing, broken or of another
version, it is made anew. With the write-ahead log and `synchronous=NORMAL` a commit needs no sync,
a killed process loses nothing and a power cut leaves an earlier commit, never a torn file.
"""

from __future__ import annotations

import hashlib
import os
import sqlite3
import stat
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from muster.domain.errors import StorageUnavailable
from muster.stores.files import calls
from muster.stores.files.journal_lines import Line
from muster.stores.files.removal import entry_status, remove_if_present

NAME = "index.sqlite"
VERSION = 1
_FILES = (NAME, f"{NAME}-wal", f"{NAME}-shm", f"{NAME}-journal")
_FOLD_BACK_PAGES = 4_000
"""The log is folded back into the file, with two syncs, once in this many pages (16 MiB): once in
some hundred batches."""
_CACHE_KIB = 8 * 1024
_BUSY_SECONDS = 5.0
_BROKEN = {
    sqlite3.SQLITE_CORRUPT,
    sqlite3.SQLITE_NOTADB,
    sqlite3.SQLITE_FORMAT,
    sqlite3.SQLITE_ERROR,
    sqlite3.SQLITE_SCHEMA,
    sqlite3.SQLITE_MISMATCH,
    sqlite3.SQLITE_CONSTRAINT,
}
_SCHEMA = f"""
BEGIN;
CREATE TABLE events (
    public_event_id TEXT PRIMARY KEY,
    seq INTEGER NOT NULL,
    segment INTEGER NOT NULL,
    position INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE covered (
    only INTEGER PRIMARY KEY CHECK (only = 1),
    segment INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    position INTEGER NOT NULL,
    finish INTEGER NOT NULL,
    digest BLOB NOT NULL
) STRICT;
PRAGMA user_version = {VERSION};
COMMIT;
"""

_inherited: list[sqlite3.Connection] = []
"""Connections of the process this one was forked from: closing one here would touch its files."""


class IndexBroken(Exception):
    """The index can't be used, or says what isn't so; it is to be made anew."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where an event's line stands: its segment's first sequence and the offset in bytes."""

    seq: int
    segment: int
    offset: int


@dataclass(frozen=True, slots=True)
class Mark:
    """The last batch that the index covers; all before it is covered too.

    `seq` is its last event's, `offset` and `end` are where its bytes stand in the segment.
    """

    segment: int
    seq: int
    offset: int
    end: int
    digest: bytes


def digest_of(batch: bytes) -> bytes:
    """What a mark keeps of its batch."""
    return hashlib.sha256(batch).digest()


class _Batch:
    """The last batch among lines that come in order."""

    def __init__(self, segment: int) -> None:
        self._segment = segment
        self._last: Line | None = None
        self._offset = 0
        self._digest = hashlib.sha256()

    def add(self, line: Line, raw: bytes) -> None:
        if self._last is None or self._last.batch != line.batch:
            self._offset = line.offset
            self._digest = hashlib.sha256()
        self._digest.update(raw)
        self._last = line

    def mark(self) -> Mark | None:
        if self._last is None:
            return None
        digest = self._digest.digest()
        return Mark(self._segment, self._last.seq, self._offset, self._last.end, digest)


class JournalIndex:
    """The index of the journal in `folder`. Every method is for the holder of its lock.

    Methods raise IndexBroken, and StorageUnavailable when the filesystem refuses for now.
    """

    def __init__(self, folder: Path) -> None:
        self._path = folder / NAME
        self._connection: sqlite3.Connection | None = None
        self._process = 0
        self._file: tuple[int, int] = (0, 0)

    def open(self, folder: int) -> None:
        """Make ready for the other methods; `folder` is the descriptor of the index's folder."""
        found = entry_status(folder, NAME)
        if self._connection is not None:
            same = found is not None and (found.st_dev, found.st_ino) == self._file
            if same and self._process == os.getpid():
                return
            self.close()
        if found is not None and not stat.S_ISREG(found.st_mode):
            raise IndexBroken("not a regular file")
        if found is None:
            self._remove_files(folder)
            os.close(calls.current().create(folder, NAME))  # SQLite would make it 0644
            found = os.stat(NAME, dir_fd=folder, follow_symlinks=False)
        self._file = (found.st_dev, found.st_ino)
        self._process = os.getpid()
        with self._coded():
            self._connection = self._connect()
            self._prepare(self._connection)

    def _connect(self) -> sqlite3.Connection:
        return sqlite3.connect(
            self._path, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False
        )

    def _prepare(self, connection: sqlite3.Connection) -> None:
        connection.execute("PRAGMA journal_mode = WAL").fetchone()
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute(f"PRAGMA cache_size = -{_CACHE_KIB}")
        connection.execute(f"PRAGMA wal_autocheckpoint = {_FOLD_BACK_PAGES}").fetchone()
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        (tables,) = connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()
        if version == 0 and tables == 0:
            connection.executescript(_SCHEMA)
        elif version != VERSION:
            raise IndexBroken(f"version {version}, this program writes {VERSION}")

    def close(self) -> None:
        """Let go of the file; `open` takes it up again."""
        connection, self._connection = self._connection, None
        if connection is None:
            return
        if self._process != os.getpid():
            _inherited.append(connection)
            return
        with suppress(sqlite3.Error):
            connection.close()

    def discard(self, folder: int) -> None:
        """Remove the index; the next `open` makes an empty one."""
        self.close()
        self._remove_files(folder)

    def _remove_files(self, folder: int) -> None:
        for name in _FILES:
            remove_if_present(folder, name)

    # Reading

    def mark(self) -> Mark | None:
        """How far the journal is covered; None when nothing is."""
        with self._coded():
            row = (
                self._opened()
                .execute("SELECT segment, seq, position, finish, digest FROM covered")
                .fetchone()
            )
        return None if row is None else Mark(*row)

    def find(self, public_event_ids: Sequence[str]) -> dict[str, Place]:
        """Where those of the ids are that the journal has."""
        if not public_event_ids:
            return {}
        marks = ",".join("?" * len(public_event_ids))
        with self._coded():
            rows = self._opened().execute(
                "SELECT public_event_id, seq, segment, position FROM events"
                f" WHERE public_event_id IN ({marks})",
                public_event_ids,
            )
            return {row[0]: Place(*row[1:]) for row in rows}

    # Writing

    def cover(self, segment: int, lines: Iterable[tuple[Line, bytes]]) -> Mark | None:
        """Take in lines of a segment with their bytes, in order, all up to the last of them.

        Returns how far the journal is covered now, None when there were no lines.
        """
        batch = _Batch(segment)

        def rows() -> Iterator[tuple[str, int, int, int]]:
            for line, raw in lines:
                batch.add(line, raw)
                yield line.public_event_id, line.seq, segment, line.offset

        with self._coded(), _transaction(self._opened()) as connection:
            # The first line with an id is the one that counts.
            connection.executemany("INSERT OR IGNORE INTO events VALUES (?, ?, ?, ?)", rows())
            mark = batch.mark()
            if mark is not None:
                connection.execute(
                    "INSERT OR REPLACE INTO covered VALUES (1, ?, ?, ?, ?, ?)",
                    (mark.segment, mark.seq, mark.offset, mark.end, mark.digest),
                )
        return mark

    def forget_before(self, seq: int) -> None:
        """Forget the events before `seq`, which aren't in the journal any more."""
        with self._coded(), _transaction(self._opened()) as connection:
            connection.execute("DELETE FROM events WHERE seq < ?", (seq,))

    def _opened(self) -> sqlite3.Connection:
        if self._connection is None:
            raise IndexBroken("not open")
        return self._connection

    @contextmanager
    def _coded(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            number = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF
            self.close()
            if number in _BROKEN:
                raise IndexBroken(str(error)) from error
            raise StorageUnavailable(
                f"the journal's index {self._path} can't be used now: {error}; free space if the "
                "disk is full, else check the disk; the append is repeated as it was"
            ) from error


@contextmanager
def _transaction(connection: sqlite3.Connection) -> Iterator[sqlite3.Connection]:
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield connection
    except BaseException:
        with suppress(sqlite3.Error):
            connection.execute("ROLLBACK")
        raise
    connection.execute("COMMIT")
