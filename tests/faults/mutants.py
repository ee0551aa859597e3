"""Break the source in one place at a time and see that a test notices.

    python -m tests.faults.mutants [--list] [words of a mutant's name ...]

Works in a temporary copy of the tree. Ends with 1 when a mutant survives or no longer fits the
code, or when the tests fail without one. Add mutants of a part in a module beside
`mutants_files.py` and name it in `MUTANTS`.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from tests.faults.mutant import Mutant
from tests.faults.mutants_archive import ARCHIVE_MUTANTS
from tests.faults.mutants_files import FILE_MUTANTS
from tests.faults.mutants_journal import JOURNAL_MUTANTS
from tests.faults.mutants_sessions import SESSION_MUTANTS

MUTANTS: tuple[Mutant, ...] = (
    *FILE_MUTANTS,
    *JOURNAL_MUTANTS,
    *SESSION_MUTANTS,
    *ARCHIVE_MUTANTS,
)

_TOP = Path(__file__).resolve().parents[2]
_NOT_COPIED = (".git", ".venv", ".muster", "__pycache__", ".*_cache", ".hypothesis", "*.egg-info")
_TEST_SECONDS = 300
_PYTEST_FAILED = 1
_FIRST_FAILURE = re.compile(r"^FAILED \S*?::(.*?)(?: - .*)?$", re.MULTILINE)


def main(arguments: Sequence[str]) -> int:
    """Run the chosen mutants and print a table; the exit status."""
    parser = argparse.ArgumentParser(description="Break the source and see that a test notices.")
    parser.add_argument("words", nargs="*", help="only mutants whose name has one of these")
    parser.add_argument("--list", action="store_true", help="only name them")
    options = parser.parse_args(arguments)
    chosen = [
        each
        for each in MUTANTS
        if not options.words or any(word in each.name for word in options.words)
    ]
    if options.list or not chosen:
        print("\n".join(each.name for each in chosen) or "no such mutant")
        return 0 if chosen else 1
    with tempfile.TemporaryDirectory(prefix="muster-mutants-") as scratch:
        tree = Path(scratch) / "tree"
        shutil.copytree(_TOP, tree, symlinks=True, ignore=shutil.ignore_patterns(*_NOT_COPIED))
        return _run_all(chosen, tree)


def _run_all(mutants: Sequence[Mutant], tree: Path) -> int:
    if not _healthy(mutants, tree):
        return 1
    bad = 0
    for mutant in mutants:
        began = time.monotonic()
        verdict, noticed_by = _run(mutant, tree)
        bad += verdict != "caught"
        seconds = time.monotonic() - began
        print(f"{verdict:9} {seconds:5.1f} s  {mutant.name:58} {noticed_by}", flush=True)
    print(f"{len(mutants) - bad} of {len(mutants)} mutants caught")
    return 1 if bad else 0


def _healthy(mutants: Sequence[Mutant], tree: Path) -> bool:
    """Whether the tests pass, and none is skipped altogether, while nothing is broken."""
    for tests in dict.fromkeys(each.tests for each in mutants):
        ran = _pytest(tests, tree)
        if ran.returncode != 0 or " passed" not in ran.stdout:
            print(f"without any mutant: {' '.join(tests)}\n{ran.stdout}{ran.stderr}")
            return False
    return True


def _run(mutant: Mutant, tree: Path) -> tuple[str, str]:
    try:
        source = mutant.write(tree)
    except ValueError as error:
        return "misfit", str(error)
    try:
        ran = _pytest(mutant.tests, tree)
    except subprocess.TimeoutExpired:
        return "caught", f"no end within {_TEST_SECONDS} s"
    finally:
        (tree / mutant.file).write_text(source)
    if ran.returncode == 0:
        return "SURVIVED", " ".join(mutant.tests)
    failure = _FIRST_FAILURE.search(ran.stdout)
    if ran.returncode != _PYTEST_FAILED or failure is None:
        return "broken", (ran.stdout + ran.stderr)[-500:]
    return "caught", failure[1]


def _pytest(tests: Sequence[str], tree: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *tests]
    return subprocess.run(
        command,
        cwd=tree,
        # A mutant of the same length within the same second would run from stale bytecode.
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "PYTHONPATH": str(tree)},
        capture_output=True,
        text=True,
        check=False,
        timeout=_TEST_SECONDS,
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
