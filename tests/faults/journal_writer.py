"""A process that appends a session's events until it is told to stop, or killed."""

from __future__ import annotations

from multiprocessing.connection import Connection
from pathlib import Path

from tests.stores.files.journal_events import journal_at, several

SEGMENT_BYTES = 30_000
BATCH = 3


def write(root: Path, session: str, first: int, stop: Path, acknowledged: Connection) -> None:
    """Append from revision `first` on; sends (revision, sequence) of what was acknowledged."""
    journal = journal_at(root, SEGMENT_BYTES)
    while not stop.exists():
        done = journal.append(several(first, first + BATCH - 1, session))
        acknowledged.send([(each.revision, each.seq) for each in done])
        first += BATCH
