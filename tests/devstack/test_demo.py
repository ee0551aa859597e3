"""The demo holds what it claims, also when the worker is killed at any other moment."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

_PROGRAM = """
import os, sys, typer
from muster.devstack.demo import register
app = typer.Typer()
app.callback()(lambda: None)
register(app)
try:
    app()
except SystemExit as end:
    sys.stdout.flush()
    os._exit(end.code or 0)
"""


def _demo(tmp_path: Path, environ: dict[str, str], *arguments: str) -> tuple[int, dict[str, Any]]:
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM, "demo", "--json", *arguments],
        cwd=tmp_path,
        env={
            **environ,
            "PYTHONPATH": str(Path(__file__).parents[2]),
            "TMPDIR": str(tmp_path),
            "MUSTER_GRACEFUL_SECONDS": "1",
        },
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout.splitlines()[-1])


def _processes_in(folder: Path) -> list[str]:
    """The command lines of processes that name a folder."""
    found = []
    for each in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = each.read_bytes().replace(b"\\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if str(folder) in line:
            found.append(line)
    return found


@pytest.mark.slow
def test_the_demo_holds_all_its_claims_and_leaves_nothing(
    tmp_path: Path, plain_environ: dict[str, str]
) -> None:
    status, told = _demo(tmp_path, plain_environ)
    assert [each for each in told["claims"] if not each["holds"]] == []
    assert len(told["claims"]) > 20
    assert (status, told["ok"]) == (0, True)
    assert list(tmp_path.iterdir()) == []
    assert _processes_in(tmp_path) == []


@pytest.mark.slow
@pytest.mark.faults
def test_the_demo_holds_all_its_claims_when_its_worker_is_killed_at_random_moments(
    tmp_path: Path, plain_environ: dict[str, str]
) -> None:
    moments = sorted(round(random.uniform(0.0, 12.0), 2) for _ in range(3))
    print("killed after", moments)
    options = [word for each in moments for word in ("--kill-after", str(each))]
    status, told = _demo(tmp_path, plain_environ, *options)
    assert [each for each in told["claims"] if not each["holds"]] == [], moments
    assert status == 0
    assert _processes_in(tmp_path) == []
