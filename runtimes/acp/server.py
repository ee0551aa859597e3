"""The sidecar's Unix socket: one line of JSON in, one line out, many on a connection.

Only its own user can connect, and nothing that the agent started: an agent doesn't answer its
own questions. The socket is bound and reached through a descriptor of its folder, since a
socket's path may have 108 bytes only and a state root may be longer.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import socket
import struct
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

from muster.domain.errors import InvalidInput, MusterError, OwnershipConflict
from muster.runtimes.acp import layout
from muster.runtimes.acp.processes import ancestors

LINE_LIMIT_BYTES = 400 * 1024 * 1024
"""Of one message; larger than any page of events, and than a prompt of 64 MiB of characters that
JSON writes in six bytes each."""

_LAST_ANSWER_SECONDS = 1.0

Handler = Callable[[dict[str, Any]], Awaitable[dict[str, Any]]]
_log = logging.getLogger("sidecar")


@contextlib.asynccontextmanager
async def serving(folder: Path, handler: Handler, guard: int) -> AsyncIterator[None]:
    """Serve `handler` on the folder's socket for as long as the context lasts.

    Leaving it lets answers that are under way reach their callers.
    """
    connections: set[asyncio.Task[Any]] = set()

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        if task is not None:
            connections.add(task)
            task.add_done_callback(connections.discard)
        with contextlib.suppress(ConnectionError), contextlib.closing(writer):
            refused = _refusal(writer.get_extra_info("socket"), guard)
            while line := await _read_line(reader):
                writer.write(await _answer(line, handler, refused))
                await writer.drain()

    with socket_path(folder) as path:
        server = await asyncio.start_unix_server(connected, path=path, limit=LINE_LIMIT_BYTES)
        os.chmod(path, 0o600)  # noqa: PTH101 - through the descriptor, not the path
    try:
        yield
    finally:
        server.close()
        if connections:
            await asyncio.wait(connections, timeout=_LAST_ANSWER_SECONDS)
        (folder / layout.SOCKET).unlink(missing_ok=True)


def encode_line(message: dict[str, Any]) -> bytes:
    """A message as its line; surrogates that no text may hold are escaped, and nothing else."""
    try:
        text = json.dumps(message, separators=(",", ":"), ensure_ascii=False).encode()
    except UnicodeEncodeError:
        text = json.dumps(message, separators=(",", ":")).encode()
    return text + b"\n"


@contextlib.contextmanager
def socket_path(folder: Path) -> Iterator[str]:
    """A short path of the folder's socket, valid within the context."""
    descriptor = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{descriptor}/{layout.SOCKET}"
    finally:
        os.close(descriptor)


async def _read_line(reader: asyncio.StreamReader) -> bytes:
    try:
        return await reader.readuntil(b"\n")
    except (asyncio.IncompleteReadError, asyncio.LimitOverrunError):
        return b""


async def _answer(line: bytes, handler: Handler, refused: MusterError | None) -> bytes:
    try:
        if refused is not None:
            raise refused
        answer = await handler(_parse(line))
    except MusterError as error:
        answer = _error(error.code, error.message)
    except (KeyError, TypeError, ValueError) as error:
        answer = _error(InvalidInput.code, f"the message isn't usable: {error!r}")
    except Exception as error:
        _log.exception("a message failed")
        answer = _error(MusterError.code, f"the sidecar failed: {error!r}")
    return encode_line(answer)


def _error(code: str, message: str) -> dict[str, Any]:
    return {"error": {"code": code, "message": message}}


def _parse(line: bytes) -> dict[str, Any]:
    message = json.loads(line)
    if not isinstance(message, dict):
        raise InvalidInput("a message is a JSON object")
    return message


def _refusal(connection: socket.socket, guard: int) -> MusterError | None:
    """An error if the peer belongs to the agent, or is gone so that nobody can tell."""
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
    pid = struct.unpack("3i", credentials)[0]
    parents = ancestors(pid)
    # A peer in a pid namespace that this process can't see into has id 0: it isn't the agent's.
    if pid != 0 and (guard in parents or not parents):
        return OwnershipConflict("an agent's own processes can't command its sidecar")
    return None
