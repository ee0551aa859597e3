"""Measure, and write `docs/performance.md`.

    python -m bench [NAME...] [--quick] [--check] [--baseline]

Without a name every bench runs, three runs each. The page is made of the latest results of each
bench. Best on a machine that does nothing else: see the load average beside the figures.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from rich.console import Console
from rich.table import Table

from bench import closing, creation, events, gate, plots, prompt, report, session, ten_thousand
from bench.common import RESULTS, Figure, write_figures
from bench.measure import Plan

console = Console()
if not console.is_terminal:
    console = Console(width=150)

QUICK, FULL = Plan(operations=6, runs=1), Plan()


@dataclass(frozen=True)
class Bench:
    """One bench: its title on the page, and what it measures."""

    title: str
    measure: Callable[[Plan], Sequence[Figure]]
    quick: Plan = QUICK
    full: Plan = FULL


BENCHES = {
    "session": Bench("Creating a session", lambda plan: asyncio.run(session.run(plan))),
    "creation-growth": Bench(
        "Creating a session beside many",
        lambda plan: asyncio.run(creation.run(plan)),
        quick=replace(QUICK, operations=10),
        full=replace(FULL, operations=60),
    ),
    "prompt": Bench("A prompt", lambda plan: asyncio.run(prompt.run(plan))),
    "closing": Bench("Closing a session", lambda plan: asyncio.run(closing.run(plan))),
    "events": Bench(
        "Publishing events",
        lambda plan: asyncio.run(events.run(plan)),
        quick=Plan(operations=50, runs=1),
        full=Plan(operations=100),
    ),
    "ten-thousand": Bench(
        "Ten thousand prompts on one session",
        lambda plan: asyncio.run(ten_thousand.run(plan.operations)),
        quick=Plan(operations=200),
        full=Plan(operations=10_000),
    ),
}


def main() -> int:
    """Run what is asked for; 1 when a gated figure has risen too far."""
    options = _options()
    measured: list[Figure] = []
    for name in options.bench or BENCHES:
        bench = BENCHES[name]
        console.print(f"[bold]{bench.title}[/bold]")
        figures = list(bench.measure(bench.quick if options.quick else bench.full))
        write_figures(name, figures)
        _show(bench.title, figures)
        measured += figures
    _write_page()
    if options.baseline:
        gate.write_baseline(measured)
    return _check(measured) if options.check else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description="Measure Muster.")
    parser.add_argument("bench", nargs="*", help=f"of {', '.join(BENCHES)}; all by default")
    parser.add_argument("--quick", action="store_true", help="few operations, for a first look")
    parser.add_argument(
        "--check", action="store_true", help="fail if a figure has risen above the baseline"
    )
    parser.add_argument(
        "--baseline", action="store_true", help="take the stable figures as the new baseline"
    )
    options = parser.parse_args()
    unknown = set(options.bench) - set(BENCHES)
    if unknown:
        parser.error(f"there is no bench {', '.join(sorted(unknown))}")
    return options


def _show(title: str, figures: Sequence[Figure]) -> None:
    load = " ".join(f"{each:.2f}" for each in os.getloadavg())
    table = Table(title=f"{title} (load average {load})", title_justify="left")
    for column in ("what", "unit", "p50", "p99", "max", "floor", "ratio", "target", ""):
        table.add_column(column, justify="left" if column in ("what", "unit", "") else "right")
    for each in figures:
        numbers = (each.p50, each.p99, each.maximum, each.floor_p50, each.ratio, each.target)
        shown = ["" if number is None else f"{number:g}" for number in numbers]
        table.add_row(each.name, each.unit, *shown, _mark(each))
    console.print(table)


def _mark(figure: Figure) -> str:
    return {True: "[green]reached[/green]", False: "[red]missed[/red]", None: ""}[figure.reached]


def _write_page() -> None:
    sections = []
    for name, bench in BENCHES.items():
        found = report.section(bench.title, RESULTS / f"{name}.json")
        if found is not None:
            sections.append(report.with_plots(found, _plot(name, found.figures)))
    report.PAGE.parent.mkdir(parents=True, exist_ok=True)
    report.PAGE.write_text(report.render(sections))
    console.print(f"written: {report.PAGE}")


def _plot(name: str, figures: Sequence[Figure]) -> tuple[str, ...]:
    """The names of a bench's plots beside the page."""
    drawn = {
        f"performance-{name}.svg": plots.plot_floors,
        f"performance-{name}-growth.svg": plots.plot_growth,
    }
    return tuple(file for file, draw in drawn.items() if draw(figures, plots.FOLDER / file))


def _check(figures: Sequence[Figure]) -> int:
    lines = gate.risen(figures, gate.read_baseline())
    for line in lines:
        console.print(f"[red]dearer[/red] {line}")
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())
