"""The worker's end of a sidecar's socket."""

from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path
from typing import Any

from muster.domain.errors import RuntimeGone, RuntimeUnavailable, error_from_code
from muster.runtimes.acp import layout
from muster.runtimes.acp.server import LINE_LIMIT_BYTES, encode_line, socket_path

CONNECT_SECONDS = 3.0
"""How long a sidecar may be alive without accepting a connection."""

_POLL_SECONDS = 0.02


async def ask(
    folder: Path,
    message: dict[str, Any],
    *,
    seconds: float,
    connect_seconds: float = CONNECT_SECONDS,
) -> dict[str, Any]:
    """Send one message and return its answer, waiting `seconds` for it.

    Raises RuntimeGone if no sidecar lives any more, RuntimeUnavailable if one lives and accepts
    no connection (nothing was sent), the coded error that the sidecar answers with, and
    TimeoutError or ConnectionError if it got the message and the answer is unknown.
    """
    reader, writer = await _connect(folder, connect_seconds)
    try:
        writer.write(encode_line(message))
        async with asyncio.timeout(seconds):
            await writer.drain()
            line = await reader.readline()
    except ConnectionError:
        line = b""
    finally:
        writer.close()
    if not line.endswith(b"\n"):
        await _explain_silence(folder)
    answer: dict[str, Any] = json.loads(line)
    if "error" in answer:
        raise error_from_code(answer["error"]["code"], answer["error"]["message"])
    return answer


async def _connect_once(
    folder: Path,
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter] | None:
    try:
        with socket_path(folder) as path:
            return await asyncio.open_unix_connection(path, limit=LINE_LIMIT_BYTES)
    except (FileNotFoundError, ConnectionError):
        return None


async def _connect(
    folder: Path, seconds: float
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    deadline = time.monotonic() + seconds
    while (streams := await _connect_once(folder)) is None:
        if not layout.is_alive(folder):
            raise RuntimeGone(f"no sidecar lives in {folder}: its session has ended")
        if time.monotonic() > deadline:
            raise RuntimeUnavailable(f"the sidecar in {folder} accepts no connection: try again")
        await asyncio.sleep(_POLL_SECONDS)
    return streams


async def _explain_silence(folder: Path) -> None:
    """Raise what a connection that ended without an answer means."""
    deadline = time.monotonic() + CONNECT_SECONDS
    while layout.is_alive(folder):
        if time.monotonic() > deadline:
            raise ConnectionError(f"the sidecar in {folder} broke off without an answer")
        await asyncio.sleep(_POLL_SECONDS)
    raise RuntimeGone(f"the sidecar in {folder} ended before it answered")
