"""Database servers with settings of their own, as processes."""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from muster.devstack.ports import answers, choose_port

_START_SECONDS = 20


@asynccontextmanager
async def database_server(folder: Path, *options: str) -> AsyncIterator[int]:
    """The port of a server that keeps its data in `folder`; ended at the end."""
    search_path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    program = shutil.which("secantusd-py", path=search_path)
    assert program is not None, "SecantusDB isn't installed; install Muster's dev extra"
    port = choose_port(0)
    process = await asyncio.create_subprocess_exec(
        program,
        *("--port", str(port), "--storage-path", str(folder), "--log-level", "ERROR"),
        *("--cache-size", "64M"),
        *options,
    )
    try:
        async with asyncio.timeout(_START_SECONDS):
            while not await answers(port):
                assert process.returncode is None, "the database server ended at its start"
                await asyncio.sleep(0.05)
        yield port
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()
