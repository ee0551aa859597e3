"""`muster setup`: what Temporal and MongoDB need before first use, and what runs by itself."""

from __future__ import annotations

from muster.client.connection import connect_temporal
from muster.client.schedules import EVERY, install_schedules
from muster.client.setup import prepare_database, register_search_attributes
from muster.client.verb import Call
from muster.domain.search_attributes import SEARCH_ATTRIBUTES
from muster.stores.documents.connection import redacted


async def setup(call: Call) -> None:
    """Register search attributes, create indexes, install schedules; may be repeated."""
    servers = call.client.servers
    temporal = await connect_temporal(servers)
    added = await register_search_attributes(temporal)
    database = call.settings.mongo_database
    indexes = await prepare_database(servers.mongo_uri, database)
    schedules = await install_schedules(temporal, call.settings.namespace, call.settings.placement)
    where = f"{redacted(servers.mongo_uri)}/{database}"
    facts = {
        "temporal": servers.address,
        "temporal_namespace": temporal.namespace,
        "search_attributes": list(SEARCH_ATTRIBUTES),
        "search_attributes_added": added,
        "mongo": where,
        "indexes": indexes,
        "schedules": schedules,
    }
    call.out.result(
        facts,
        name=temporal.namespace,
        shown=(
            f"Temporal {servers.address}, namespace {temporal.namespace}: "
            f"{len(SEARCH_ATTRIBUTES)} search attributes, "
            f"{'added ' + ', '.join(added) if added else 'all there before'}\n"
            f"MongoDB {where}: {len(indexes)} indexes are there\n"
            f"Schedules for {call.settings.namespace}: {_schedules_text(schedules)}"
        ),
    )


def _schedules_text(schedules: list[str] | None) -> str:
    if schedules is None:
        return (
            "this server has none, so nobody looks for work that was left behind; "
            "run `muster reconcile` for it"
        )
    return f"{', '.join(schedules)}, every {EVERY.total_seconds() / 60:g} minutes"
