"""Find a MongoDB server or the program for one: the first place that works."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

import pymongo
from pymongo.errors import OperationFailure, PyMongoError

from muster.client.local_stack import Attempt, redact_uri
from muster.devstack.ports import LOOPBACK
from muster.domain.errors import MongoUnavailable

CONNECT_MILLISECONDS = 5000
"""How long an explicitly configured server may take to answer."""

PROBE_MILLISECONDS = 2000
"""How long one look at a server that is starting may take."""

REPLICA_SET = "muster"

_NOT_YET_INITIALIZED = 94
_INVALID_REPLICA_SET_CONFIG = 93


class MongoKind(StrEnum):
    """What kind of MongoDB server a stack uses."""

    EXTERNAL = "external"
    MONGOD = "mongod"
    SECANTUS = "secantus"
    SECANTUS_RS = "secantus-rs"
    """SecantusDB's server in Rust: faster, with files of its own."""


def local_uri(port: int) -> str:
    """The URI of a stack's own server; direct, so that its set's member names don't matter."""
    return f"mongodb://{LOOPBACK}:{port}/?directConnection=true"


@dataclass(frozen=True, slots=True)
class MongoFound:
    """A server that answers (`external`) or the program that will be one."""

    kind: MongoKind
    where: str
    attempts: tuple[Attempt, ...]
    uri: str | None = None
    program: Path | None = None


async def find_mongo(environ: Mapping[str, str]) -> MongoFound:
    """The first MongoDB server that works, with what was looked at on the way.

    Raises:
        MongoUnavailable: Configured explicitly and silent, or nothing usable anywhere.
    """
    attempts: list[Attempt] = []

    def found(kind: MongoKind, where: str, what: str | Path) -> MongoFound:
        shown = redact_uri(str(what))
        attempts.append(Attempt(component="mongo", where=where, outcome=shown, chosen=True))
        program = what if isinstance(what, Path) else None
        uri = what if isinstance(what, str) else None
        return MongoFound(kind, where, tuple(attempts), uri=uri, program=program)

    def missing(where: str, outcome: str) -> None:
        attempts.append(Attempt(component="mongo", where=where, outcome=outcome))

    if uri := environ.get("MUSTER_MONGO_URI"):
        await check_mongo(uri)
        return found(MongoKind.EXTERNAL, "MUSTER_MONGO_URI", uri)
    missing("MUSTER_MONGO_URI", "not set")
    if program := shutil.which("mongod", path=environ.get("PATH")):
        return found(MongoKind.MONGOD, "mongod on PATH", Path(program))
    missing("mongod on PATH", "not there")
    beside = Path(sys.executable).parent
    search_path = os.pathsep.join([str(beside), environ.get("PATH", "")])
    name = environ.get("MUSTER_SECANTUSD") or "secantusd-py"
    if program := shutil.which(name, path=search_path):
        kind = MongoKind.SECANTUS_RS if name.endswith("-rs") else MongoKind.SECANTUS
        return found(kind, "SecantusDB", Path(program))
    raise MongoUnavailable(
        "no MongoDB server can be started: MUSTER_MONGO_URI isn't set, mongod isn't on PATH and "
        f"SecantusDB ({name}) isn't installed. Set MUSTER_MONGO_URI to a replica set, install "
        "mongod, or install Muster with its dev extra"
    )


async def check_mongo(uri: str) -> None:
    """Return when the configured server answers.

    Raises:
        MongoUnavailable: It doesn't, or the URI isn't one.
    """
    try:
        await ping(uri, CONNECT_MILLISECONDS)
    except (PyMongoError, ValueError) as error:
        raise MongoUnavailable(
            f"nothing usable answers under MUSTER_MONGO_URI {redact_uri(uri)}: "
            f"{str(error).splitlines()[0][:300]}. Start it, correct the setting, or remove it to "
            "let Muster start a server of its own"
        ) from error


async def ping(uri: str, timeout_ms: int) -> None:
    """Return when a server answers under `uri` within the time, else raise PyMongoError."""
    client: pymongo.AsyncMongoClient[dict[str, object]]
    async with pymongo.AsyncMongoClient(uri, serverSelectionTimeoutMS=timeout_ms) as client:
        await client.admin.command("ping")


async def ensure_replica_set(port: int) -> bool:
    """Make the mongod on `port` a replica set of one; True once it takes writes.

    A set that was made under another port takes the new one.
    """
    member = f"{LOOPBACK}:{port}"
    client: pymongo.AsyncMongoClient[dict[str, Any]]
    async with pymongo.AsyncMongoClient(
        local_uri(port), serverSelectionTimeoutMS=PROBE_MILLISECONDS
    ) as client:
        try:
            await client.admin.command("replSetGetStatus")
        except OperationFailure as error:
            if error.code == _NOT_YET_INITIALIZED:
                first = {"_id": REPLICA_SET, "members": [{"_id": 0, "host": member}]}
                await client.admin.command("replSetInitiate", first)
            elif error.code == _INVALID_REPLICA_SET_CONFIG:
                config = (await client.admin.command("replSetGetConfig"))["config"]
                config["members"] = [{**config["members"][0], "host": member}]
                config["version"] += 1
                await client.admin.command("replSetReconfig", config, force=True)
            else:
                raise
        hello = await client.admin.command("hello")
        return bool(hello.get("isWritablePrimary"))
