"""Fails when an operation has become dearer: the figures that don't depend on the machine's mood.

`baseline.json` holds, by figure, what it may be compared with; counts may rise by less than a
fifth, processor time by less than a half, since machines differ.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from bench.common import Figure

BASELINE = Path(__file__).with_name("baseline.json")

COUNTS = ("events", "fsyncs", "commands")
PROCESSOR = "processor ms"

TOLERANCE = {**dict.fromkeys(COUNTS, 1.2), PROCESSOR: 1.5}
"""How many times its baseline a figure of a unit may be, exclusively."""


def stable(figures: Iterable[Figure]) -> list[Figure]:
    """Those that are compared."""
    return [each for each in figures if each.unit in TOLERANCE]


def read_baseline() -> dict[str, float]:
    """The baseline's figures by name."""
    found: dict[str, float] = json.loads(BASELINE.read_text())
    return found


def risen(figures: Iterable[Figure], baseline: dict[str, float]) -> list[str]:
    """A line for each figure that has risen too far, or has no baseline."""
    lines = []
    for each in stable(figures):
        known = baseline.get(each.name)
        if known is None:
            lines.append(f"{each.name}: {each.p50:g} {each.unit} has no baseline")
        elif each.p50 >= known * TOLERANCE[each.unit]:
            lines.append(f"{each.name}: {each.p50:g} {each.unit}, the baseline is {known:g}")
    return lines


def write_baseline(figures: Iterable[Figure]) -> None:
    """Take these figures as the baseline, beside those that it has of other benches."""
    known = read_baseline() if BASELINE.exists() else {}
    known.update({each.name: each.p50 for each in stable(figures)})
    BASELINE.write_text(json.dumps(known, indent=1, sort_keys=True) + "\n")
