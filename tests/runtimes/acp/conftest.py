"""A state root for each test, with nothing left running after it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.runtimes.acp.support import Home


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    made = Home.make(tmp_path)
    try:
        yield made
    finally:
        made.end_everything()
