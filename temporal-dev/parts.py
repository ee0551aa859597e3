"""Bring up each part of a stack: find it, start it when it is ours, make it ready for use."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from temporalio.client import Client

from muster.client.connection import choose_servers, connect_temporal
from muster.client.local_stack import Attempt, MongoInfo, TemporalInfo, TemporalKind
from muster.client.schedules import install_schedules
from muster.client.settings import load_settings
from muster.client.setup import prepare_database, register_search_attributes
from muster.devstack.model import (
    TEST_SERVER_LACKS,
    EventKind,
    OnEvent,
    StackEvent,
    StackOptions,
)
from muster.devstack.mongo import find_mongo, local_uri
from muster.devstack.ports import LOOPBACK, choose_port, is_free
from muster.devstack.process import Child, StartFailed
from muster.devstack.servers import (
    local_temporal_settings,
    mongo_child,
    temporal_child,
    worker_child,
)
from muster.devstack.supervisor import component_error
from muster.devstack.temporal import TemporalFound, find_temporal, load_profile, temporal_choice

PORT_TRIES = 3
"""How often a port that somebody took between our look and the server's start is replaced."""


@dataclass(frozen=True, slots=True)
class Site:
    """What all parts share: options, the resolved folder, and whom to tell.

    `adopt` takes over a child as soon as it runs, so that whatever fails later, it is stopped.
    """

    options: StackOptions
    data_dir: Path
    on_event: OnEvent
    adopt: Callable[[Child], None]

    def say(self, component: str, kind: EventKind, message: str) -> None:
        """Report one line of progress."""
        self.on_event(StackEvent(component, kind, message))


async def start_temporal(site: Site) -> tuple[TemporalInfo, tuple[Attempt, ...]]:
    """A Temporal server that answers and knows Muster's search attributes."""
    options = site.options
    site.say("temporal", EventKind.STEP, "looking for a Temporal server")
    choice = temporal_choice(options.temporal, options.environ)
    found = await find_temporal(choice, options.environ, site.on_event)
    if found.kind is TemporalKind.EXTERNAL:
        info = TemporalInfo(
            kind=found.kind,
            address=found.address or "",
            namespace=found.namespace,
            where=found.where,
        )
        profile = load_profile(options.environ)
        client = await Client.connect(**profile.to_client_connect_config())
    else:
        info = await _run_temporal(site, found)
        client = await Client.connect(info.address, namespace=info.namespace)
    await register_search_attributes(client)
    if info.missing:
        site.say(
            "temporal",
            EventKind.NOTICE,
            f"only the test server could be started: no {', no '.join(info.missing)}",
        )
    site.say("temporal", EventKind.READY, f"answers at {info.address}")
    return info, found.attempts


async def _run_temporal(site: Site, found: TemporalFound) -> TemporalInfo:
    options = site.options
    full = found.kind is TemporalKind.SERVER
    ui_port: int | None = None

    def at(port: int) -> Child:
        # Chosen anew with each try: it may be the one that was taken.
        nonlocal ui_port
        ui_port = choose_port(options.ui_port) if full and options.ui else None
        return temporal_child(
            found,
            data_dir=site.data_dir,
            database=None if options.in_memory else site.data_dir / "temporal.db",
            port=port,
            ui_port=ui_port,
            environ=options.environ,
        )

    port = await _start_on_a_port(site, options.temporal_port, at)
    return TemporalInfo(
        kind=found.kind,
        address=f"{LOOPBACK}:{port}",
        namespace=found.namespace,
        where=found.where,
        ui_url=f"http://{LOOPBACK}:{ui_port}" if ui_port else None,
        missing=() if full else TEST_SERVER_LACKS,
    )


async def start_mongo(site: Site) -> tuple[MongoInfo, tuple[Attempt, ...]]:
    """A MongoDB server that answers, takes writes and has Muster's indexes."""
    site.say("mongo", EventKind.STEP, "looking for a MongoDB server")
    found = await find_mongo(site.options.environ)
    if found.uri is not None:
        info = MongoInfo(uri=found.uri, where=found.where)
    else:

        def at(port: int) -> Child:
            return mongo_child(
                found, data_dir=site.data_dir, port=port, environ=site.options.environ
            )

        port = await _start_on_a_port(site, site.options.mongo_port, at)
        info = MongoInfo(uri=local_uri(port), where=found.where)
    await prepare_database(info.uri, site.options.environ.get("MUSTER_MONGO_DATABASE", "muster"))
    site.say("mongo", EventKind.READY, f"answers, from {info.where}")
    return info, found.attempts


async def start_worker(site: Site, temporal: TemporalInfo | None, mongo: MongoInfo | None) -> None:
    """A worker that polls the queues of this stack."""
    site.say("worker", EventKind.STEP, "starting")
    child = worker_child(
        data_dir=site.data_dir,
        environ=_worker_settings(site.options.environ, temporal),
        mongo_uri=mongo.uri if mongo else None,
    )
    await _start(site, child)
    site.say("worker", EventKind.READY, "polls its queues")
    if temporal is not None:
        await _look_after_sessions(site, temporal)


async def _look_after_sessions(site: Site, temporal: TemporalInfo) -> None:
    """What reconciles and reaps the sessions of the stack's namespace every few minutes."""
    environ = _worker_settings(site.options.environ, temporal)
    settings = load_settings(
        root=environ.get("MUSTER_ROOT"),
        runtime_host=environ.get("MUSTER_RUNTIME_HOST"),
        namespace=environ.get("MUSTER_NAMESPACE"),
    )
    client = await connect_temporal(choose_servers(settings, environ=environ))
    installed = await install_schedules(client, settings.namespace, settings.placement)
    if installed is None:
        site.say("worker", EventKind.NOTICE, "this server has no Temporal Schedules")


def _worker_settings(
    environ: Mapping[str, str], temporal: TemporalInfo | None
) -> Mapping[str, str]:
    if temporal is None or temporal.kind is TemporalKind.EXTERNAL:
        return environ
    return local_temporal_settings(environ, temporal.address, temporal.namespace)


async def _start_on_a_port(site: Site, preferred: int, at: Callable[[int], Child]) -> int:
    """Start what `at` makes for a port, with another when a port was taken meanwhile.

    A Temporal server looks for ports of its own, too, and may lose one of them.
    """
    for tries_left in reversed(range(PORT_TRIES)):
        port = choose_port(preferred)
        child = at(port)
        if preferred and port != preferred:
            site.say(child.name, EventKind.NOTICE, f"port {preferred} is taken; using {port}")
        try:
            await child.start()
        except StartFailed as error:
            if tries_left and (child.lost_a_port or not is_free(port)):
                continue
            raise component_error(child, str(error)) from error
        site.adopt(child)
        return port
    raise AssertionError("the last try returns or raises")


async def _start(site: Site, child: Child) -> None:
    try:
        await child.start()
    except StartFailed as error:
        raise component_error(child, str(error)) from error
    site.adopt(child)
