"""A mutant: one way to break the source that the tests must notice."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Mutant:
    """One replacement in one file, and the tests of which at least one must fail then."""

    name: str
    """What the mutant does wrong, in a few words."""
    file: str
    """Relative to the top of the tree."""
    search: str
    """Must occur exactly once in the file."""
    replacement: str
    tests: tuple[str, ...]
    """Arguments for pytest: files, `file::test` or `-k expression`."""

    def applied(self, source: str) -> str:
        """The broken source; raises ValueError when the mutant no longer fits the code."""
        found = source.count(self.search)
        if found != 1:
            raise ValueError(f"mutant {self.name!r}: found {found} times in {self.file}, not once")
        return source.replace(self.search, self.replacement)

    def write(self, tree: Path) -> str:
        """Break the file in this copy of the tree and return what it was."""
        path = tree / self.file
        source = path.read_text()
        path.write_text(self.applied(source))
        return source
