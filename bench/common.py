"""What all benches share: how a figure looks, and where it is kept."""

from __future__ import annotations

import json
import os
import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

RESULTS = Path(".muster/bench")
"""Where each bench leaves its figures for the report, below the working directory."""


@dataclass(frozen=True, slots=True)
class Figure:
    """One measured thing beside its floor of the same run.

    Latencies and costs have their median in `p50`; a plain count stands there alone.
    """

    name: str
    unit: str
    p50: float
    p99: float | None = None
    maximum: float | None = None
    floor_p50: float | None = None
    """The bare workflow's, pymongo's or the plain file call's median in the same run."""
    ratio: float | None = None
    """`p50` by its floor, or by the smallest of a series: see the note."""
    target: float | None = None
    """What `ratio` may be at most, or `p50` where there is no ratio."""
    note: str = ""

    @property
    def reached(self) -> bool | None:
        """Whether the target is reached; None without one."""
        if self.target is None:
            return None
        return (self.p50 if self.ratio is None else self.ratio) <= self.target


def percentile(values: Sequence[float], part: float) -> float:
    """The value below which `part` of all lie, without interpolation."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(part * len(ordered)))]


def latency(
    name: str,
    values: Sequence[float],
    floor: Sequence[float] = (),
    *,
    unit: str = "ms",
    target: float | None = None,
    note: str = "",
) -> Figure:
    """The figure of a sample, beside its floor's sample."""
    p50 = statistics.median(values)
    floor_p50 = statistics.median(floor) if floor else None
    return Figure(
        name,
        unit,
        p50=round(p50, 3),
        p99=round(percentile(values, 0.99), 3),
        maximum=round(max(values), 3),
        floor_p50=None if floor_p50 is None else round(floor_p50, 3),
        ratio=round(p50 / floor_p50, 3) if floor_p50 else None,
        target=target,
        note=note,
    )


def write_figures(bench: str, figures: Sequence[Figure]) -> Path:
    """Keep a bench's figures, with the load average at their end, for the report."""
    RESULTS.mkdir(parents=True, exist_ok=True)
    path = RESULTS / f"{bench}.json"
    load = [round(each, 2) for each in os.getloadavg()]
    content = {"load_average": load, "figures": [asdict(each) for each in figures]}
    path.write_text(json.dumps(content, indent=1) + "\n")
    return path


def read_figures(path: Path) -> tuple[list[Figure], list[float]]:
    """The figures of one bench and the load average."""
    content = json.loads(path.read_text())
    return [Figure(**each) for each in content["figures"]], content["load_average"]
