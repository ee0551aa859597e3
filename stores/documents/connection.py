"""The connection to MongoDB, with the guarantees that the stores count on.

Writes are acknowledged by a majority and retried once by the driver; every operation ends within
its time limit. What a URI says about a time limit wins over the default here; what it says about
write concern doesn't, since a lost acknowledged write can't be made good.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from types import TracebackType
from typing import Any
from urllib.parse import parse_qsl

import pymongo
from bson.codec_options import CodecOptions
from pymongo import AsyncMongoClient, ReadPreference, WriteConcern
from pymongo.asynchronous.collection import AsyncCollection
from pymongo.asynchronous.database import AsyncDatabase
from pymongo.errors import PyMongoError

from muster.domain.errors import InvalidInput, MongoUnavailable
from muster.stores.documents.failures import UNSTORABLE, coded_failure, unavailable
from muster.stores.documents.names import SESSIONS

Document = dict[str, Any]

APP_NAME = "muster"

_GUARANTEES: dict[str, Any] = {
    "appname": APP_NAME,
    "retryWrites": True,
    "retryReads": True,
    "tz_aware": True,
}

_DEFAULTS: dict[str, Any] = {
    "connectTimeoutMS": 5_000,
    # One operation with all its retries; the driver also waits so long for a primary, whatever
    # serverSelectionTimeoutMS says.
    "timeoutMS": 10_000,
    "maxIdleTimeMS": 60_000,
}

_PING_SECONDS = 5.0
"""Nobody waits longer to hear that there is no server."""

_ACCEPT_SECONDS = 1.0

_PING = "ask for an answer"

_HOST = r"(?:[A-Za-z0-9_.-]+|\[[0-9A-Fa-f:]+\])(?::[0-9]{1,5})?"
_HOSTS = re.compile(rf"{_HOST}(?:,{_HOST})*")
_SCHEMES = ("mongodb", "mongodb+srv")


@dataclass(frozen=True, slots=True)
class Mongo:
    """A database and where it is, without credentials."""

    client: AsyncMongoClient[Document]
    database: AsyncDatabase[Document]
    where: str
    tls: bool = False

    def collection(self, name: str) -> AsyncCollection[Document]:
        """The collection `name` with the connection's guarantees."""
        return self.database[name]

    async def ping(self) -> None:
        """Return when the database can be used.

        Raises:
            MongoUnavailable: It can't; `reason` in the details says why: `unreachable`,
                `timeout`, `tls`, `credentials`, `permission` or `refused`.
        """
        limit = min(_PING_SECONDS, self.client.options.timeout or _PING_SECONDS)
        try:
            with self.coded(_PING), pymongo.timeout(limit):
                await self.client.admin.command("ping")
                # A ping needs no rights; a look at an empty selection does.
                await self.collection(SESSIONS).find_one({"_id": ""}, {"_id": 1})
        except MongoUnavailable as error:
            if error.details["reason"] == "unreachable" and self.tls and await self._accepts():
                facts = str(error.details["facts"])
                raise unavailable(_PING, self.where, "tls", facts) from error
            raise

    async def _accepts(self) -> bool:
        """Whether a server takes connections, whatever it says then."""
        for host, port in self.client.topology_description.server_descriptions():
            with suppress(OSError, TimeoutError):
                async with asyncio.timeout(_ACCEPT_SECONDS):
                    _, writer = await asyncio.open_connection(host, port)
                writer.close()
                return True
        return False

    async def close(self) -> None:
        """End all connections."""
        await self.client.close()

    @contextmanager
    def coded(self, doing: str) -> Iterator[None]:
        """Turn the driver's errors inside into coded ones that say what was being done.

        Raises:
            MongoUnavailable: The same call may be repeated: it has the effect of one.
            LimitExceeded: The server takes no document of this size.
            InvalidInput: A value has no form in BSON.
        """
        try:
            yield
        except (PyMongoError, *UNSTORABLE) as error:
            raise coded_failure(error, doing, self.where) from error

    async def __aenter__(self) -> Mongo:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()


def connect(uri: str, database: str, **options: Any) -> Mongo:
    """A client of `database`; it connects at the first operation (see `Mongo.ping`).

    Args:
        uri: A MongoDB connection string.
        database: The name of the database that Muster's collections are in.
        options: More of the driver's client options.

    Raises:
        InvalidInput: The URI or the database's name isn't valid.
    """
    where = redacted(uri)
    if uri.partition("://")[0] not in _SCHEMES:
        raise _unusable(f"{where}/{database}", "no mongodb:// at its start")
    given = {name.lower() for name, _ in parse_qsl(uri.partition("?")[2])}
    defaults = {name: value for name, value in _DEFAULTS.items() if name.lower() not in given}
    try:
        client: AsyncMongoClient[Document] = AsyncMongoClient(
            uri, **{**_GUARANTEES, **defaults, **options}
        )
        opened = client.get_database(
            database,
            codec_options=CodecOptions(tz_aware=True),
            read_preference=ReadPreference.PRIMARY,
            write_concern=WriteConcern(w="majority", j=True),
        )
    except (PyMongoError, ValueError, OSError) as error:
        # The driver's own message may quote the URI with its password.
        raise _unusable(f"{where}/{database}", type(error).__name__) from None
    return Mongo(client, opened, f"{where}/{database}", tls=_asks_for_tls(uri, options))


def _asks_for_tls(uri: str, options: dict[str, Any]) -> bool:
    query = {name.lower(): value for name, value in parse_qsl(uri.partition("?")[2])}
    asked = query.get("tls", query.get("ssl", options.get("tls")))
    return uri.startswith("mongodb+srv://") if asked is None else str(asked).lower() == "true"


def _unusable(where: str, why: str) -> InvalidInput:
    return InvalidInput(
        f"the MongoDB setting for {where} can't be used ({why}); it looks like "
        "mongodb://user:password@host:27017/?replicaSet=rs0, with special characters of the "
        "password percent-encoded and every file it names in place"
    )


def redacted(uri: str) -> str:
    """The scheme and hosts of a MongoDB URI: nothing that could be a secret."""
    scheme, separator, rest = uri.partition("://")
    if not separator or scheme not in _SCHEMES:
        return "mongodb://…"
    hosts = re.split(r"[/?&]", rest.rpartition("@")[2], maxsplit=1)[0]
    return f"{scheme}://{hosts if _HOSTS.fullmatch(hosts) else '…'}"
