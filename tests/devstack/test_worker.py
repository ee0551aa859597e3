"""The worker of a stack: part of it, started again when killed, its refusal shown."""

from __future__ import annotations

import os
import signal
from dataclasses import replace
from pathlib import Path

import pytest

from muster.client.local_stack import ProcessInfo, StackInfo
from muster.devstack import Stack, StackOptions, read_stack
from muster.domain.errors import WorkerUnavailable
from tests.waiting import eventually


@pytest.fixture
def options(data_dir: Path, plain_environ: dict[str, str]) -> StackOptions:
    return StackOptions(
        data_dir=data_dir,
        ui=False,
        in_memory=True,
        temporal_port=0,
        mongo_port=0,
        environ=plain_environ,
    )


def _worker(info: StackInfo | None) -> ProcessInfo | None:
    return next((each for each in info.processes if each.name == "worker"), None) if info else None


async def test_a_killed_worker_is_replaced_by_one_that_polls(
    options: StackOptions, data_dir: Path
) -> None:
    async with Stack(options) as stack:
        killed = _worker(stack.describe())
        assert killed is not None
        os.kill(killed.pid, signal.SIGKILL)

        def replaced() -> bool:
            described = _worker(read_stack(data_dir))
            return described is not None and described.restarts == 1

        await eventually(replaced)
        following = _worker(stack.describe())
        assert following is not None
        assert following.pid != killed.pid
        assert (data_dir / "run" / "worker.ready").exists()


async def test_a_worker_that_refuses_its_settings_is_shown_with_its_words_and_its_log(
    options: StackOptions, data_dir: Path
) -> None:
    environ = {**options.environ, "MUSTER_ROLES": '["juggler"]'}
    with pytest.raises(WorkerUnavailable) as raised:
        await Stack(replace(options, environ=environ)).start()
    assert "juggler" in raised.value.message
    assert str(data_dir / "logs" / "worker.log") in raised.value.message
    assert read_stack(data_dir) is None
