"""A way to the MongoDB server that can be shut: its clients are refused until it opens again."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from urllib.parse import urlsplit


class MongoGate:
    """Passes bytes between its port and a server's.

    Args:
        uri: The server behind the gate.
    """

    def __init__(self, uri: str) -> None:
        self._server = urlsplit(uri)
        self._port = 0
        self._listener: asyncio.Server | None = None
        self._passing: set[asyncio.Task[None]] = set()

    @property
    def uri(self) -> str:
        """The server as reached through the gate."""
        return self._server._replace(netloc=f"127.0.0.1:{self._port}").geturl()

    async def open(self) -> None:
        """Let clients through, at the same port each time."""
        self._listener = await asyncio.start_server(self._pass, "127.0.0.1", self._port)
        self._port = self._listener.sockets[0].getsockname()[1]

    async def shut(self) -> None:
        """Refuse clients and end the connections that there are."""
        if self._listener is not None:
            self._listener.close()
        for each in self._passing:
            each.cancel()
        await asyncio.gather(*self._passing, return_exceptions=True)

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._passing.add(task)
        task.add_done_callback(self._passing.discard)
        server_reader, server_writer = await asyncio.open_connection(
            self._server.hostname, self._server.port
        )
        try:
            with suppress(asyncio.CancelledError, ConnectionError):
                await asyncio.gather(_copy(reader, server_writer), _copy(server_reader, writer))
        finally:
            writer.close()
            server_writer.close()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(65_536):
        writer.write(data)
        await writer.drain()
    writer.close()
