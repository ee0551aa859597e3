"""A mutant that no longer fits its file would break nothing and prove nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults.mutant import Mutant
from tests.faults.mutants import MUTANTS

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda each: each.name)
def test_a_mutant_fits_one_place_of_its_file(mutant: Mutant) -> None:
    assert (ROOT / mutant.file).read_text().count(mutant.search) == 1
