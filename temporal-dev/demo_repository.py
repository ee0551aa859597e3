"""The throw-away git repository of the demo, and the prompts that change it.

Each prompt's script writes one line to a file of its own when it starts, so that how often it ran
is counted by the file and not by what anybody says.
"""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from muster.domain.errors import InvalidInput

RUNS = ".git/demo-runs"
"""Where scripts count themselves: outside of what git tracks, and gone with the repository."""


@dataclass(frozen=True, slots=True)
class Prompt:
    """A script that the agent runs."""

    name: str
    title: str
    script: str
    changes: str
    """The file that it changes and commits."""


def _script(name: str, body: str) -> str:
    return f"set -e\necho run >> {RUNS}-{name}\n{body.strip()}\n"


PROMPTS = (
    Prompt(
        "first",
        "write greet.sh and commit it",
        _script(
            "first",
            """
printf '#!/bin/sh\\necho "Hello, ${1:-world}"\\n' > greet.sh
chmod +x greet.sh
git add greet.sh
git commit -q -m 'Greet'
echo "committed $(git rev-parse --short HEAD)"
""",
        ),
        "greet.sh",
    ),
    Prompt(
        "second",
        "write a log in six slow steps and commit it",
        _script(
            "second",
            """
for step in 1 2 3 4 5 6; do
    echo "step $step" >> log.txt
    echo "step $step of 6"
    sleep 0.5
done
git add log.txt
git commit -q -m 'Log six steps'
echo "committed $(git rev-parse --short HEAD)"
""",
        ),
        "log.txt",
    ),
    Prompt(
        "third",
        "test greet.sh and commit the result",
        _script(
            "third",
            """
./greet.sh Muster > result.txt
git add result.txt
git commit -q -m 'Keep the result of a greeting'
echo "committed $(git rev-parse --short HEAD)"
""",
        ),
        "result.txt",
    ),
)


class Repository:
    """A git repository made for one run."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @classmethod
    def make(cls, folder: Path) -> Repository:
        """A new repository with one commit.

        Raises:
            InvalidInput: There is no git.
        """
        if shutil.which("git") is None:
            raise InvalidInput("the demo needs git on PATH; install it")
        folder.mkdir(parents=True)
        made = cls(folder)
        made.git("init", "-q", "-b", "main")
        made.git("config", "user.name", "Muster demo")
        made.git("config", "user.email", "demo@muster.invalid")
        made.git("config", "commit.gpgsign", "false")
        (folder / "README").write_text("A repository for one run of the demo.\n")
        made.git("add", "README")
        made.git("commit", "-q", "-m", "Begin")
        return made

    def git(self, *arguments: str) -> str:
        """Run git here and return what it said."""
        done = subprocess.run(
            ["git", *arguments], cwd=self.folder, check=True, capture_output=True, text=True
        )
        return done.stdout.strip()

    def runs(self, prompt: Prompt) -> int:
        """How often a prompt's script has started."""
        counter = self.folder / f"{RUNS}-{prompt.name}"
        return len(counter.read_text().splitlines()) if counter.exists() else 0

    def commits_of(self, path: str) -> int:
        """How many commits changed a file."""
        return len(self.git("log", "--format=%h", "--", path).splitlines())

    def clean(self) -> bool:
        """Whether everything is committed."""
        return not self.git("status", "--porcelain")
