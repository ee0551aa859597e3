"""A stack in its own process, as `muster dev` runs it: signals, a second start, a killed one."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path
from typing import Any

import pytest

from muster.devstack import read_stack
from muster.devstack.process import process_started
from tests.devstack.programs import StackProcess
from tests.waiting import eventually


def _all_gone(description: dict[str, Any]) -> bool:
    return not any(process_started(each["pid"]) for each in description["processes"])


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_stop_signal_ends_the_whole_stack_with_status_0(
    data_dir: Path, plain_environ: dict[str, str], number: signal.Signals
) -> None:
    stack = await StackProcess.start(data_dir, plain_environ)
    description = await stack.described()
    stack.process.send_signal(number)
    assert await stack.status() == 0
    assert {each["name"] for each in description["processes"]} == {"temporal", "mongo"}
    assert _all_gone(description)


async def test_a_stop_signal_during_the_start_leaves_nothing_running(
    data_dir: Path, plain_environ: dict[str, str]
) -> None:
    stack = await StackProcess.start(data_dir, plain_environ)
    await eventually(lambda: read_stack(data_dir))
    stack.process.send_signal(signal.SIGTERM)
    assert await stack.status() == 0
    assert read_stack(data_dir) is None
    pids = await asyncio.to_thread(_processes_that_mention, str(data_dir))
    assert pids == []


async def test_a_second_start_shows_the_first_and_ends_with_status_0(
    data_dir: Path, plain_environ: dict[str, str]
) -> None:
    first = await StackProcess.start(data_dir, plain_environ)
    description = await first.described()
    second = await StackProcess.start(data_dir, plain_environ)
    assert await second.described() == description
    assert await second.status() == 0
    first.process.send_signal(signal.SIGTERM)
    assert await first.status() == 0


async def test_a_killed_supervisor_leaves_nothing_running_and_the_next_start_works(
    data_dir: Path, plain_environ: dict[str, str]
) -> None:
    killed = await StackProcess.start(data_dir, plain_environ)
    description = await killed.described()
    killed.process.kill()
    await killed.status()
    assert read_stack(data_dir) is None
    following = await StackProcess.start(data_dir, plain_environ)
    assert (await following.described())["state"] == "running"
    await eventually(lambda: _all_gone(description))
    following.process.send_signal(signal.SIGTERM)
    assert await following.status() == 0


def _processes_that_mention(text: str) -> list[str]:
    found = []
    for each in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if text in each.read_text(errors="replace"):
                found.append(each.parent.name)
        except OSError:
            continue
    return found
