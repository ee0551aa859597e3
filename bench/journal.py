"""What an append to the journal costs, beside 1,000 events and beside 1,000,000.

    python -m bench.journal [--folder FOLDER] [--events 1000 1000000] [--appends 300]

The journals are laid out by writing their segments directly; the first append then makes the
index, which is what a process pays once when it is missing. The floor is the same bytes written
to a plain file and synced. The measured journals take turns, so that a busy machine slows both.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from muster.domain.public_events import PublicEvent, UnsequencedEvent
from muster.stores.files import calls
from muster.stores.files.calls import Call, FileCalls, T
from muster.stores.files.journal import SEGMENT_BYTES, Journal
from muster.stores.files.journal_lines import encode
from muster.stores.files.journal_segments import ACTIVE, sealed_name
from muster.stores.files.private import PrivateTree

FOLDER = "events"
SESSIONS = 20
BATCH_SIZES = (1, 16, 128)


def event(session: str, revision: int) -> UnsequencedEvent:
    """An event of usual size, some 400 bytes as a line."""
    turn = f"turn-{revision:032x}"
    return UnsequencedEvent(
        public_event_id=f"txn:{session}:{revision}:turn.settled:turn:{turn}",
        namespace_id="bench",
        session_id=session,
        incarnation="inc-0123456789abcdef",
        revision=revision,
        kind="turn.settled",
        entity="turn",
        entity_id=turn,
        payload={"status": "completed", "summary": "done " * 8, "elapsed_ms": 1234},
    )


def lay_out(folder: Path, events: int) -> None:
    """Segments as this many appends of one event each would have left them."""
    folder.mkdir(parents=True, mode=0o700)
    seq = 0
    while seq < events:
        first, size, lines = seq + 1, 0, []
        while seq < events and size < SEGMENT_BYTES:
            seq += 1
            revision, session = divmod(seq - 1, SESSIONS)
            members = dict(event(f"s-{session:016x}", revision + 1))
            lines.append(encode(PublicEvent.model_validate({**members, "seq": seq}), seq))
            size += len(lines[-1])
        name = ACTIVE if size < SEGMENT_BYTES else sealed_name(first)
        (folder / name).write_bytes(b"".join(lines))
        (folder / name).chmod(0o600)


class SyncCount(FileCalls):
    """The real calls; how many of them are syncs."""

    def __init__(self) -> None:
        self.syncs = 0

    def perform(self, call: Call, action: Callable[[], T]) -> T:
        self.syncs += call.name == "fsync"
        return action()


class Subject:
    """A journal of a size, and what its appends took."""

    def __init__(self, root: Path, events: int) -> None:
        self.events = events
        lay_out(root / FOLDER, events)
        self.journal = Journal(PrivateTree(root), FOLDER)
        began = time.perf_counter()
        self.journal.append([event("first", 1)])
        self.indexing_seconds = time.perf_counter() - began
        self.wall: list[float] = []
        self.processor: list[float] = []
        self.syncs = 0
        self._revision = 0

    def append(self, size: int) -> None:
        """One batch of the next events of one session."""
        first = self._revision + 1
        self._revision += size
        batch = [event("measured", revision) for revision in range(first, first + size)]
        counting = SyncCount()
        with calls.use(counting):
            wall, processor = time.perf_counter(), time.process_time()
            self.journal.append(batch)
            self.wall.append(1e3 * (time.perf_counter() - wall))
            self.processor.append(1e3 * (time.process_time() - processor))
        self.syncs += counting.syncs

    def reset(self) -> None:
        """Forget what was measured."""
        self.wall, self.processor, self.syncs = [], [], 0

    def read_ms(self, after: int) -> float:
        """A page of 100 events from this position."""
        began = time.perf_counter()
        self.journal.read(after, 100)
        return 1e3 * (time.perf_counter() - began)


def floor_ms(folder: Path, size: int, appends: int) -> float:
    """The same bytes appended to a plain file and synced: p50 in milliseconds."""
    data = encode(PublicEvent.model_validate({**dict(event("floor", 1)), "seq": 1}), 1) * size
    took = []
    file = os.open(folder / "floor", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    for _ in range(appends):
        began = time.perf_counter()
        os.write(file, data)
        os.fsync(file)
        took.append(1e3 * (time.perf_counter() - began))
    os.close(file)
    return statistics.median(took)


def p50_p99(values: Sequence[float]) -> dict[str, float]:
    """Median, 99th percentile and maximum, rounded."""
    ordered = sorted(values)
    return {
        "p50": round(statistics.median(ordered), 3),
        "p99": round(ordered[int(0.99 * (len(ordered) - 1))], 3),
        "max": round(ordered[-1], 3),
    }


def measure(folder: Path, sizes: Sequence[int], appends: int) -> list[dict[str, object]]:
    """One row for each journal's size and batch's size."""
    subjects = [Subject(folder / str(size), size) for size in sizes]
    rows: list[dict[str, object]] = []
    for batch in BATCH_SIZES:
        floor = floor_ms(folder, batch, appends)
        for each in subjects:
            each.reset()
        for _ in range(appends):
            for each in subjects:
                each.append(batch)
        base = statistics.median(subjects[0].wall)
        rows += [
            {
                "events": each.events,
                "batch": batch,
                "wall_ms": p50_p99(each.wall),
                "processor_ms": p50_p99(each.processor),
                "floor_ms": round(floor, 3),
                "times_the_smallest": round(statistics.median(each.wall) / base, 3),
                "syncs_per_batch": round(each.syncs / appends, 3),
            }
            for each in subjects
        ]
    rows += [
        {
            "events": each.events,
            "indexing_s": round(each.indexing_seconds, 2),
            "read_100_ms": round(
                statistics.median(each.read_ms(each.events // 2) for _ in range(20)), 2
            ),
        }
        for each in subjects
    ]
    return rows


def main() -> None:
    """Print one JSON object a line."""
    parser = argparse.ArgumentParser(description="What an append to the journal costs.")
    parser.add_argument("--folder", type=Path, help="where to put the journals; a disk, not memory")
    parser.add_argument("--events", type=int, nargs="+", default=[1_000, 1_000_000])
    parser.add_argument("--appends", type=int, default=300)
    options = parser.parse_args()
    scratch = Path(tempfile.mkdtemp(prefix="muster-bench-", dir=options.folder))
    try:
        for row in measure(scratch, options.events, options.appends):
            print(json.dumps(row), flush=True)
    finally:
        shutil.rmtree(scratch)
    print(json.dumps({"load_average": [round(each, 2) for each in os.getloadavg()]}))


if __name__ == "__main__":
    main()
