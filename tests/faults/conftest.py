"""A running system for fault tests, on the servers of the test run."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.faults.harness import System
from tests.faults.side_by_side import Case, NewSystem, SideBySide


@pytest.fixture(scope="session")
def new_system(temporal_address: str, mongo_uri: str, plain_environ: dict[str, str]) -> NewSystem:
    """Makes systems beneath a folder."""
    return lambda folder: System.on(temporal_address, mongo_uri, plain_environ, folder)


@pytest.fixture
async def system(new_system: NewSystem, tmp_path: Path) -> AsyncIterator[System]:
    """One system, without a worker yet."""
    async with new_system(tmp_path / "system") as made:
        yield made


@pytest.fixture(scope="session")
async def side_by_side(
    request: pytest.FixtureRequest,
    new_system: NewSystem,
    tmp_path_factory: pytest.TempPathFactory,
) -> AsyncIterator[SideBySide]:
    """Every parameter named `case` of the tests that were chosen, under way."""
    cases: dict[str, Case] = {
        item.nodeid: item.callspec.params["case"]  # type: ignore[misc]
        for item in request.session.items
        if isinstance(item, pytest.Function)
        and hasattr(item, "callspec")
        and "side_by_side" in item.fixturenames
    }
    running = SideBySide(cases, new_system, tmp_path_factory.mktemp("cases"))
    yield running
    await running.end()
