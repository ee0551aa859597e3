"""What can be wrong with a set-up, each looked at by itself."""

from __future__ import annotations

import asyncio
import os
import stat
from pathlib import Path

from temporalio.api.enums.v1 import TaskQueueType
from temporalio.api.operatorservice.v1 import ListSearchAttributesRequest
from temporalio.api.workflowservice.v1 import DescribeNamespaceRequest, GetSystemInfoRequest
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from muster.client.connection import Servers, choose_servers, connect_temporal
from muster.client.failures import coded
from muster.client.reading import SessionReader
from muster.client.sending import last_polled
from muster.client.settings import ClientSettings
from muster.domain.contract import Contract
from muster.domain.control import MusterStatus
from muster.domain.errors import MusterError
from muster.domain.search_attributes import SEARCH_ATTRIBUTES
from muster.stores.documents.connection import Mongo, connect
from muster.stores.documents.indexes import missing_indexes

SEEN_WITHIN_SECONDS = 120.0
"""A worker asks for work at least once a minute."""

SETUP = "Run `muster setup`"


class Finding(Contract):
    """One thing that was looked at."""

    name: str
    ok: bool | None
    """None if it can't be told from here."""
    found: str
    todo: str = ""


def good(name: str, found: str) -> Finding:
    """Nothing to do."""
    return Finding(name=name, ok=True, found=found)


def bad(name: str, found: str, todo: str) -> Finding:
    """Something to do."""
    return Finding(name=name, ok=False, found=found, todo=todo)


def unknown(name: str, found: str) -> Finding:
    """Not to be told from here."""
    return Finding(name=name, ok=None, found=found)


async def examine(settings: ClientSettings) -> list[Finding]:
    """Look at everything; what can't be looked at for another's fault is left out."""
    try:
        servers = choose_servers(settings)
    except MusterError as error:
        return [bad("configuration", error.message, "Correct it and look again")]
    temporal, mongo = await asyncio.gather(
        _examine_temporal(settings, servers), _examine_mongo(settings, servers)
    )
    return [*_stack(servers), *temporal, *mongo, _state_root(servers)]


def _stack(servers: Servers) -> list[Finding]:
    stack = servers.stack
    if stack is None:
        return [unknown("stack", "no development stack runs here")]
    text = f"{stack.state}, data in {stack.data_dir}"
    parts = {"Temporal": stack.temporal, "MongoDB": stack.mongo, "worker": stack.worker or None}
    missing = [name for name, part in parts.items() if part is None]
    if stack.state != "running" or missing:
        lacking = f", without {', '.join(missing)}" if missing else ""
        return [bad("stack", text + lacking, "Wait until it is up, or stop and start `muster dev`")]
    return [good("stack", text)]


async def _examine_temporal(settings: ClientSettings, servers: Servers) -> list[Finding]:
    try:
        client = await connect_temporal(servers)
    except MusterError as error:
        return [bad("temporal", error.message, "Start the server or correct its address")]
    looks = [
        _server(client, servers),
        _namespace(client),
        _search_attributes(client),
        _worker(client, "worker", settings.placement.root_queue, workflows=True),
        _worker(client, "runtime worker", settings.placement.runtime_queue, workflows=False),
    ]
    return list(await asyncio.gather(*looks))


async def _server(client: Client, servers: Servers) -> Finding:
    where = f"{servers.address} ({servers.temporal_from})"
    try:
        about = await client.workflow_service.get_system_info(GetSystemInfoRequest())
    except RPCError as error:
        return bad("temporal", f"{where}: {coded(error).message}", "Look at the server's log")
    version = f", version {about.server_version}" if about.server_version else ""
    return good("temporal", f"{where}{version}")


async def _namespace(client: Client) -> Finding:
    name = "temporal namespace"
    try:
        found = await client.workflow_service.describe_namespace(
            DescribeNamespaceRequest(namespace=client.namespace)
        )
    except RPCError as error:
        if error.status in (RPCStatusCode.UNIMPLEMENTED, RPCStatusCode.PERMISSION_DENIED):
            return unknown(name, f"{client.namespace}; the server doesn't describe it")
        todo = f"Create it (`temporal operator namespace create -n {client.namespace}`)"
        return bad(name, coded(error).message, todo)
    kept = found.config.workflow_execution_retention_ttl.ToTimedelta()
    return good(name, f"{client.namespace}; keeps closed workflows for {kept.days} days")


async def _search_attributes(client: Client) -> Finding:
    name = "search attributes"
    try:
        listed = await client.operator_service.list_search_attributes(
            ListSearchAttributesRequest(namespace=client.namespace)
        )
    except RPCError as error:
        if error.status in (RPCStatusCode.UNIMPLEMENTED, RPCStatusCode.PERMISSION_DENIED):
            return unknown(name, "the server doesn't list them")
        return bad(name, coded(error).message, SETUP)
    missing = [each for each in SEARCH_ATTRIBUTES if each not in listed.custom_attributes]
    if missing:
        return bad(name, f"missing: {', '.join(missing)}", SETUP)
    return good(name, f"all {len(SEARCH_ATTRIBUTES)} are there")


async def _worker(client: Client, name: str, queue: str, *, workflows: bool) -> Finding:
    kinds = [TaskQueueType.TASK_QUEUE_TYPE_ACTIVITY]
    kinds += [TaskQueueType.TASK_QUEUE_TYPE_WORKFLOW] if workflows else []
    try:
        ages = [await last_polled(client, queue, kind) for kind in kinds]
    except RPCError as error:
        return unknown(name, f"the server doesn't say who polls {queue}: {error.message}")
    seen = [each for each in ages if each is not None]
    if len(seen) < len(ages):
        return bad(
            name, f"nobody polls {queue}", "Start one: `muster dev`, or `python -m muster.worker`"
        )
    oldest = max(seen)
    if oldest > SEEN_WITHIN_SECONDS:
        found = f"{queue} was polled {oldest:.0f} s ago for the last time"
        return bad(name, found, "Look whether the worker still runs")
    return good(name, f"polls {queue}")


async def _examine_mongo(settings: ClientSettings, servers: Servers) -> list[Finding]:
    try:
        async with connect(servers.mongo_uri, settings.mongo_database) as mongo:
            try:
                await mongo.ping()
            except MusterError as error:
                todo = "Start the server or correct MUSTER_MONGO_URI"
                return [bad("mongo", f"{error.message} (from {servers.mongo_from})", todo)]
            return [
                good("mongo", f"{mongo.where} ({servers.mongo_from})"),
                await _replica_set(mongo),
                await _indexes(mongo),
                await _sessions(mongo, settings.namespace),
            ]
    except MusterError as error:
        return [bad("mongo", error.message, "Correct it and look again")]


async def _replica_set(mongo: Mongo) -> Finding:
    name = "mongo transactions"
    with mongo.coded("ask what kind of server it is"):
        hello = await mongo.client.admin.command("hello")
    if hello.get("setName") or hello.get("msg") == "isdbgrid":
        return good(name, f"replica set {hello.get('setName', 'behind mongos')}")
    return bad(
        name,
        "the server is neither a replica set nor a mongos, so it has no transactions",
        "Start mongod with --replSet and initiate it",
    )


async def _indexes(mongo: Mongo) -> Finding:
    missing = await missing_indexes(mongo)
    if missing:
        return bad("mongo indexes", f"missing: {', '.join(missing)}", SETUP)
    return good("mongo indexes", "all are there")


async def _sessions(mongo: Mongo, namespace: str) -> Finding:
    reader = SessionReader(mongo, namespace)
    page = await reader.list(statuses=(MusterStatus.UNCERTAIN,))
    if page.summaries:
        ids = ", ".join(each.session_id for each in page.summaries[:5])
        return bad(
            "sessions",
            f"uncertain or to be repaired in namespace {namespace}: {ids}",
            "Look with `muster session show` and resolve them",
        )
    return good("sessions", f"none is uncertain in namespace {namespace}")


def _state_root(servers: Servers) -> Finding:
    name = "state root"
    given = os.environ.get("MUSTER_STATE_ROOT")
    root = given or (servers.stack.state_root if servers.stack else None)
    if root is None:
        return unknown(name, "not on this machine, as far as can be told (MUSTER_STATE_ROOT)")
    path = Path(root)
    try:
        mode = stat.S_IMODE(path.stat().st_mode)
    except OSError as error:
        todo = "Create or mount it, or correct MUSTER_STATE_ROOT"
        return bad(name, f"{path}: {error.strerror}", todo)
    if not os.access(path, os.R_OK | os.W_OK | os.X_OK):
        return bad(name, f"{path} isn't readable and writable", "Give its owner to this user")
    if mode & 0o077:
        return bad(name, f"{path} has mode {mode:o}: others may look in", f"chmod 700 {path}")
    return good(name, str(path))
