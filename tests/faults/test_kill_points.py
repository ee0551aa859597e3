"""A worker killed at each named point of each request leaves counts at the agent as stated.

With `MUSTER_KILLS` set, as for the long run of random kills, the whole table is run.
"""

from __future__ import annotations

import os

import pytest

from tests.faults.kill_points import MORE_ROWS, ROWS
from tests.faults.side_by_side import Case, SideBySide

pytestmark = pytest.mark.faults

CHOSEN = (*ROWS, *MORE_ROWS) if "MUSTER_KILLS" in os.environ else ROWS


@pytest.mark.parametrize("case", CHOSEN, ids=str)
async def test_a_kill_leaves_counts_at_the_agent_as_stated(
    case: Case, request: pytest.FixtureRequest, side_by_side: SideBySide
) -> None:
    await side_by_side.outcome(request.node.nodeid)
