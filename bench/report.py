"""The page `docs/performance.md`: every bench's figures with their targets."""

from __future__ import annotations

import os
import platform
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

import temporalio

from bench.common import Figure, read_figures
from bench.stage import faster_mongo

PAGE = Path("docs/performance.md")

_HEAD = "| what | unit | p50 | p99 | max | floor p50 | ratio | target | reached |"
_RULE = "|---|---|---:|---:|---:|---:|---:|---:|---|"
_REACHED = {True: "yes", False: "**no**", None: ""}

_INTRODUCTION = """\
# What Muster costs

Written by `make bench`; not to be edited. Each figure stands beside its floor of the same run: a
bare workflow with the same number and kind of steps that do nothing, on the same worker and
server, or the file call or the MongoDB command alone. Arrivals come at a fixed rate, whether or
not earlier ones are done. A ratio is the median by its floor's; a target is for the ratio, or for
the median where there is none.

The agent's own time is taken out: with an *instant* agent there is none, with the acp agent the
time in which the worker waits for it and has nothing else to do is subtracted.
"""


@dataclass(frozen=True)
class Section:
    """One bench on the page."""

    title: str
    figures: list[Figure]
    load_average: list[float]
    plots: tuple[str, ...] = ()


def machine() -> str:
    """What the figures were measured on, without names and places."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return (
        f"{os.cpu_count()} processors ({_processor()}), {memory:.0f} GiB of memory, "
        f"{platform.system()} {platform.release().split('-')[0]}, "
        f"Python {platform.python_version()}, temporalio {temporalio.__version__}, "
        f"{'secantusd-rs' if faster_mongo() else 'secantusd-py'} in MongoDB's place"
    )


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.machine()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def section(title: str, results: Path) -> Section | None:
    """The section of a bench whose results are there."""
    if not results.exists():
        return None
    return Section(title, *read_figures(results))


def with_plots(given: Section, plots: tuple[str, ...]) -> Section:
    """The section with plots beneath its table."""
    return replace(given, plots=plots)


def render(sections: Sequence[Section]) -> str:
    """The page."""
    day = datetime.now(UTC).date().isoformat()
    parts = [_INTRODUCTION, f"Measured on {day} on {machine()}.\n"]
    parts += [_section(each) for each in sections]
    return "\n".join(parts)


def _section(given: Section) -> str:
    load = " ".join(f"{each:g}" for each in given.load_average)
    rows = "\n".join(_row(each) for each in given.figures)
    notes = "\n".join(f"- {each.name}: {each.note}" for each in given.figures if each.note)
    plots = "\n".join(f"![{given.title}]({each})" for each in given.plots)
    text = f"## {given.title}\n\nLoad average at the end: {load}.\n\n{_HEAD}\n{_RULE}\n{rows}\n"
    return "\n".join(
        part for part in (text, notes and f"{notes}\n", plots and f"{plots}\n") if part
    )


def _row(each: Figure) -> str:
    cells = [
        each.name,
        each.unit,
        _number(each.p50),
        _number(each.p99),
        _number(each.maximum),
        _number(each.floor_p50),
        _number(each.ratio),
        _number(each.target),
        _REACHED[each.reached],
    ]
    return "| " + " | ".join(cells) + " |"


def _number(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:.0f}" if abs(value) >= 1_000 else f"{value:.3g}" if value else "0"
