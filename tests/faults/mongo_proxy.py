"""A proxy between a client and a MongoDB server that loses replies.

A fail point of the server makes a command fail before it runs. What has to be shown is the other
case: the command ran and its answer never arrived. So the proxy hands each command to the server,
waits for the reply, and then drops it with the connection, or holds it back, as it was told.
"""

from __future__ import annotations

import asyncio
import struct
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

from bson import decode

_HEADER = struct.Struct("<iiii")
_INT32 = struct.Struct("<i")
_OP_MSG = 2013
_BODY = 0
_MORE_TO_COME = 2


@dataclass
class Faults:
    """What happens to the replies of one place in the order of commands."""

    command: str
    occurrence: int = 1
    """Of the commands with this name, the first that is hit."""
    times: int = 1
    """How many in succession are hit; a repeat by the driver counts as the next one."""
    hold_seconds: float | None = None
    """Hold the reply back so long instead of dropping it."""


@dataclass
class LossyProxy:
    """Where it listens, what passed, and what it has to do."""

    port: int
    server_port: int
    faults: Faults | None = None
    seen: Counter[str] = field(default_factory=Counter)
    hit: int = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Pass on one client's connection until a side ends it or a reply is to be lost."""
        server_reader, server_writer = await asyncio.open_connection("127.0.0.1", self.server_port)
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            while await self._exchange(reader, writer, server_reader, server_writer):
                pass
        server_writer.close()
        writer.close()

    async def _exchange(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        server_reader: asyncio.StreamReader,
        server_writer: asyncio.StreamWriter,
    ) -> bool:
        """One command and its reply; False if the reply is lost."""
        request = await _message(reader)
        server_writer.write(request)
        await server_writer.drain()
        if _flags(request) & _MORE_TO_COME:
            return True  # nobody expects a reply
        reply = await _message(server_reader)
        faults = self._faults_for(_command(request))
        if faults is not None and faults.hold_seconds is None:
            return False
        if faults is not None and faults.hold_seconds is not None:
            await asyncio.sleep(faults.hold_seconds)
        while True:
            writer.write(reply)
            await writer.drain()
            if not _flags(reply) & _MORE_TO_COME:
                return True
            reply = await _message(server_reader)

    def _faults_for(self, command: str | None) -> Faults | None:
        if command is None:
            return None
        self.seen[command] += 1
        faults = self.faults
        if faults is None or command != faults.command:
            return None
        place = self.seen[command] - faults.occurrence
        if not 0 <= place < faults.times:
            return None
        self.hit += 1
        return faults


@asynccontextmanager
async def lossy_proxy(server_port: int, faults: Faults | None = None) -> AsyncIterator[LossyProxy]:
    """A proxy in front of a server on this machine, listening until the block ends."""
    proxy = LossyProxy(port=0, server_port=server_port, faults=faults)
    connections: set[asyncio.Task[None]] = set()

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        connections.add(task)
        task.add_done_callback(connections.discard)
        with suppress(asyncio.CancelledError):
            await proxy.serve(reader, writer)

    listener = await asyncio.start_server(connected, "127.0.0.1", 0)
    proxy.port = listener.sockets[0].getsockname()[1]
    try:
        yield proxy
    finally:
        listener.close()
        for task in connections:
            task.cancel()
        await asyncio.gather(*connections, return_exceptions=True)


async def _message(reader: asyncio.StreamReader) -> bytes:
    header = await reader.readexactly(_HEADER.size)
    length = _HEADER.unpack(header)[0]
    return header + await reader.readexactly(length - _HEADER.size)


def _flags(message: bytes) -> int:
    """The flag bits of an OP_MSG; none for anything else."""
    if _HEADER.unpack_from(message)[3] != _OP_MSG:
        return 0
    return int(_INT32.unpack_from(message, _HEADER.size)[0])


def _command(message: bytes) -> str | None:
    """The command's name if the message is an OP_MSG with its body first."""
    body = _HEADER.size + _INT32.size
    if _HEADER.unpack_from(message)[3] != _OP_MSG or message[body] != _BODY:
        return None
    length = _INT32.unpack_from(message, body + 1)[0]
    return next(iter(decode(message[body + 1 : body + 1 + length])))
