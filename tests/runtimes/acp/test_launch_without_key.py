"""A launch that comes too late for its creation begins nothing: its key is gone."""

from __future__ import annotations

import pytest

from muster.domain.errors import RuntimeUnavailable
from muster.domain.faults import arm, disarm_all
from muster.domain.runtime import LaunchState
from muster.runtimes.acp.adapter import AcpRuntime
from muster.runtimes.signing import private_key_path
from tests.runtimes.acp.support import NAMESPACE, Home


async def test_a_launch_whose_key_is_taken_away_in_its_last_moment_starts_no_agent(
    home: Home,
) -> None:
    key = home.root / private_key_path(NAMESPACE, home.verifier.key_id)
    started = home.cwd / "started"
    request = home.request(command=("/bin/sh", "-c", f"touch {started}; exec cat"))
    runtime = AcpRuntime(home.root)
    arm("launch.before_spawn", key.unlink)
    try:
        with pytest.raises(RuntimeUnavailable):
            await runtime.launch(request)
    finally:
        disarm_all()
    with pytest.raises(RuntimeUnavailable):
        await runtime.launch(request)
    assert (await runtime.find_launch(request)).state == LaunchState.ABSENT
    assert not started.exists()
