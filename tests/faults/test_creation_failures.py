"""Creations that something breaks end by themselves, with one agent, document and receipt, or none.

The table is in `creation_failures`. A server that is stopped and started strikes a creation at
each point of the table at the same moment.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from tests.faults.creation_failures import (
    POINTS,
    ROWS,
    ROWS_ON_A_DISK,
    Outcome,
    finished,
    frozen,
)
from tests.faults.own_servers import OwnServers
from tests.faults.side_by_side import Case, SideBySide

pytestmark = pytest.mark.faults

CASES_ON_A_DISK = ROWS_ON_A_DISK if os.geteuid() == 0 else ()
"""Mounting a small disk needs root: without it they show as skipped."""


@pytest.fixture(scope="module")
async def own_servers(
    tmp_path_factory: pytest.TempPathFactory, plain_environ: dict[str, str]
) -> AsyncIterator[OwnServers]:
    """Servers that nobody else needs."""
    folder = tmp_path_factory.mktemp("servers")
    async with OwnServers.started(folder, plain_environ) as servers:
        yield servers


@pytest.mark.parametrize("case", ROWS, ids=str)
async def test_an_interrupted_creation_leaves_one_agent_document_and_receipt_or_none(
    case: Case, request: pytest.FixtureRequest, side_by_side: SideBySide
) -> None:
    await side_by_side.outcome(request.node.nodeid)


@pytest.mark.parametrize("case", CASES_ON_A_DISK, ids=str)
async def test_a_creation_on_a_full_disk_finishes_when_there_is_room_again(
    case: Case, request: pytest.FixtureRequest, side_by_side: SideBySide
) -> None:
    await side_by_side.outcome(request.node.nodeid)


@pytest.mark.parametrize("server", ["mongo", "temporal"])
async def test_creations_at_every_point_finish_once_a_server_is_back(
    server: str, own_servers: OwnServers, tmp_path: Path
) -> None:
    async with AsyncExitStack() as stack:
        systems = [
            await stack.enter_async_context(own_servers.system(tmp_path / point))
            for point in POINTS
        ]
        under_way = await asyncio.gather(
            *(frozen(system, point) for system, point in zip(systems, POINTS, strict=True))
        )
        try:
            async with own_servers.without(server):
                for _, worker in under_way:
                    worker.signal(signal.SIGCONT)
            await asyncio.gather(
                *(
                    finished(system, creating, Outcome())
                    for system, (creating, _) in zip(systems, under_way, strict=True)
                )
            )
        finally:
            for creating, _ in under_way:
                creating.cancel()
