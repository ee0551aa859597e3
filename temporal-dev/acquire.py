"""Bring the Temporal command into Muster's cache: by the SDK's download or by `go install`."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import shutil
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from pathlib import Path

import httpx
from temporalio.testing import WorkflowEnvironment

PINNED_CLI = "github.com/temporalio/cli/cmd/temporal@v1.5.1"

DOWNLOAD_HOST = "https://temporal.download"
REACHABLE_SECONDS = 4.0
"""How long the download's host may take to answer at all: without a network we go on quickly."""
DOWNLOAD_SECONDS = 300.0
BUILD_SECONDS = 1800.0
"""A build takes two to six minutes on two cores."""
PROGRESS_SECONDS = 15.0

Say = Callable[[str], None]


async def download_with_sdk(cache: Path, say: Say) -> Path | str:
    """Let the Temporal SDK download its development server and keep the program.

    Returns:
        The program in the cache, or why there is none.
    """
    try:
        async with asyncio.timeout(REACHABLE_SECONDS), httpx.AsyncClient() as web:
            await web.head(DOWNLOAD_HOST)
    except (httpx.HTTPError, OSError, TimeoutError):
        return f"{DOWNLOAD_HOST} doesn't answer"
    say("downloading the Temporal development server")
    with _staging(cache) as staging:
        try:
            # The SDK offers no download alone: it starts the server once, and we keep the file.
            async with asyncio.timeout(DOWNLOAD_SECONDS):
                server = await WorkflowEnvironment.start_local(download_dest_dir=str(staging))
                await server.shutdown()
        except (RuntimeError, OSError, TimeoutError) as error:
            return f"failed: {str(error) or 'too slow'}"
        programs = [each for each in staging.iterdir() if os.access(each, os.X_OK)]
        if not programs:
            return "left no program"
        return _install(programs[0], cache)


async def install_with_go(cache: Path, environ: Mapping[str, str], say: Say) -> Path | str:
    """Build the pinned Temporal command with the Go toolchain, once for everybody who waits.

    Returns:
        The program in the cache, or why there is none.
    """
    go = shutil.which("go", path=environ.get("PATH"))
    if go is None:
        return "no go on PATH"
    cache.mkdir(parents=True, exist_ok=True)
    async with _one_builder(cache, say):
        if (cache / "temporal").exists():
            return cache / "temporal"
        say(f"building {PINNED_CLI} with go; this takes some minutes, once")
        with _staging(cache) as staging:
            settings = {**environ, "GOBIN": str(staging), "CGO_ENABLED": "0"}
            failure = await _run_with_progress([go, "install", "-v", PINNED_CLI], settings, say)
            return failure or _install(staging / "temporal", cache)


async def _run_with_progress(command: list[str], environ: Mapping[str, str], say: Say) -> str:
    """Run and report the newest line now and then; an empty text is success, else the reason."""
    process = await asyncio.create_subprocess_exec(
        *command,
        env=environ,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
    )
    assert process.stderr is not None
    began, last = time.monotonic(), "fetching the sources"
    try:
        async with asyncio.timeout(BUILD_SECONDS):
            reading = asyncio.ensure_future(process.stderr.readline())
            while True:
                done, _ = await asyncio.wait([reading], timeout=PROGRESS_SECONDS)
                if not done:
                    say(f"building for {time.monotonic() - began:.0f} s ({last})")
                    continue
                line = reading.result().decode(errors="replace").strip()
                if not line and process.stderr.at_eof():
                    break
                last = line or last
                reading = asyncio.ensure_future(process.stderr.readline())
            status = await process.wait()
    except TimeoutError:
        return f"not finished after {BUILD_SECONDS:.0f} s"
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    return "" if status == 0 else f"failed: {last[:300]}"


def _install(program: Path, cache: Path) -> Path:
    """Move a finished program to its place in one step: nobody finds half of it."""
    target = cache / "temporal"
    program.chmod(0o755)
    program.replace(target)
    return target


@contextlib.contextmanager
def _staging(cache: Path) -> Iterator[Path]:
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".new-", dir=cache) as name:
        yield Path(name)


@contextlib.asynccontextmanager
async def _one_builder(cache: Path, say: Say) -> AsyncIterator[None]:
    with (cache / ".build.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("another process builds the Temporal command; waiting for it")
            await asyncio.to_thread(fcntl.flock, lock, fcntl.LOCK_EX)
        yield
