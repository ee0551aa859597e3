"""Plots for `docs/`: the medians beside their floors, and what grows."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas

from bench.common import Figure

FOLDER = Path("docs")

_AFTER = re.compile(r"^(?P<series>.*), (?:after|with|at) (?P<size>[\d,]+)\b")
_SIZE = (8.0, 3.6)

mpl.use("svg")
mpl.rcParams.update({"svg.hashsalt": "muster", "font.size": 9, "axes.grid": True})


def plot_floors(figures: Sequence[Figure], path: Path) -> bool:
    """Bars of medians beside their floors; False if no figure has one."""
    shown = [each for each in figures if each.unit == "ms" and each.floor_p50 is not None]
    if not shown:
        return False
    canvas = Canvas(figsize=_SIZE, layout="constrained")
    axes: Axes = canvas.subplots()
    places = range(len(shown))
    axes.barh([p + 0.2 for p in places], [each.p50 for each in shown], 0.4, label="Muster")
    axes.barh(
        [p - 0.2 for p in places],
        [each.floor_p50 or 0.0 for each in shown],
        0.4,
        label="floor of the same run",
    )
    axes.set_yticks(list(places), [each.name for each in shown])
    axes.invert_yaxis()
    axes.set_xlabel("p50 in ms")
    axes.legend()
    _save(canvas, path)
    return True


def plot_growth(figures: Sequence[Figure], path: Path) -> bool:
    """Lines of what is called `<series>, after|with|at <size>`; False if nothing is."""
    series: dict[str, list[tuple[float, float]]] = {}
    for each in figures:
        found = _AFTER.match(each.name)
        if found:
            size = float(found["size"].replace(",", ""))
            series.setdefault(found["series"], []).append((size, each.p50))
    series = {name: points for name, points in series.items() if len(points) > 1}
    if not series:
        return False
    canvas = Canvas(figsize=_SIZE, layout="constrained")
    axes: Axes = canvas.subplots()
    for name, points in series.items():
        sizes, values = zip(*sorted(points), strict=True)
        axes.plot(sizes, values, marker="o", label=name)
    axes.set_xscale("log")
    axes.set_ylim(bottom=0)
    axes.set_xlabel("what there was before")
    axes.set_ylabel("p50 in ms")
    axes.legend()
    _save(canvas, path)
    return True


def _save(canvas: Canvas, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    canvas.savefig(path, metadata={"Date": None})
