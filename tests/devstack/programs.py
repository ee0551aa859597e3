"""Stand-ins for programs that a machine may have on PATH, and a stack in a process of its own."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).parents[2]


def put_on_path(folder: Path, name: str, script: str, environ: dict[str, str]) -> dict[str, str]:
    """`environ` with an executable shell script `name` first on PATH."""
    folder.mkdir(exist_ok=True)
    program = folder / name
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    return {**environ, "PATH": f"{folder}{os.pathsep}{environ['PATH']}"}


class StackProcess:
    """A stack that runs as `muster dev` does: its own process, ended by signals."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process

    @classmethod
    async def start(cls, data_dir: Path, environ: dict[str, str]) -> StackProcess:
        """Start it; its first line of output describes it."""
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "tests.devstack.stack_program",
            data_dir,
            cwd=REPOSITORY,
            env=environ,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        return cls(process)

    async def described(self) -> dict[str, Any]:
        """What it printed as its description."""
        assert self.process.stdout is not None
        async with asyncio.timeout(60):
            line = await self.process.stdout.readline()
        assert line, (await self.process.communicate())[1].decode()
        description: dict[str, Any] = json.loads(line)
        return description

    async def status(self) -> int:
        """Its exit status, waited for."""
        async with asyncio.timeout(60):
            return await self.process.wait()
