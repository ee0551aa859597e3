"""Prepare a Temporal namespace and a MongoDB database.

What `muster setup` and the development stack share.
"""

from __future__ import annotations

import asyncio
from collections.abc import Container

from temporalio.api.enums.v1 import IndexedValueType
from temporalio.api.operatorservice.v1 import (
    AddSearchAttributesRequest,
    ListSearchAttributesRequest,
)
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from muster.domain.errors import InvalidInput, TemporalUnavailable
from muster.domain.search_attributes import SEARCH_ATTRIBUTES, AttributeType
from muster.stores.documents.connection import connect
from muster.stores.documents.indexes import ensure_indexes

VISIBLE_WITHIN_SECONDS = 20.0
"""How long a server may take until it lists an attribute that it has accepted."""

_INDEXED_TYPES: dict[AttributeType, IndexedValueType.ValueType] = {
    "Keyword": IndexedValueType.INDEXED_VALUE_TYPE_KEYWORD,
    "Datetime": IndexedValueType.INDEXED_VALUE_TYPE_DATETIME,
}


async def register_search_attributes(client: Client) -> list[str]:
    """Register what is missing of Muster's search attributes in the client's namespace.

    May run any number of times and from several processes at once.

    Returns:
        The names that this call added; empty when all were there.

    Raises:
        InvalidInput: A name is taken by an attribute of another type.
        TemporalUnavailable: The server didn't answer or refused the operator's call.
    """
    try:
        known = await _known(client)
        missing = [name for name in SEARCH_ATTRIBUTES if name not in known]
        added = [name for name in missing if await _add(client, name)]
        if missing:
            await _until_visible(client)
    except (RPCError, TimeoutError) as error:
        reason = error.message if isinstance(error, RPCError) else "not listed after being added"
        raise TemporalUnavailable(
            f"search attributes of namespace {client.namespace!r} can't be registered: {reason}. "
            "With rights of an operator run `muster setup`, or create "
            f"{', '.join(SEARCH_ATTRIBUTES)} in the cluster's own console"
        ) from error
    return added


async def prepare_database(uri: str, database: str) -> list[str]:
    """Create what is missing of Muster's indexes; the names of all.

    Raises:
        InvalidInput: The URI or the name can't be used.
        MongoUnavailable: The server doesn't answer or refuses.
    """
    async with connect(uri, database) as mongo:
        return await ensure_indexes(mongo)


async def _known(client: Client, *, unlisted: Container[str] = ()) -> Container[str]:
    """The registered names, their types checked; `unlisted` from a server that can't tell."""
    try:
        listed = await client.operator_service.list_search_attributes(
            ListSearchAttributesRequest(namespace=client.namespace)
        )
    except RPCError as error:
        # The test server takes attributes and can't list them.
        if error.status is RPCStatusCode.UNIMPLEMENTED:
            return unlisted
        raise
    types = dict(listed.custom_attributes)
    for name, kind in SEARCH_ATTRIBUTES.items():
        if types.get(name, _INDEXED_TYPES[kind]) != _INDEXED_TYPES[kind]:
            raise InvalidInput(
                f"search attribute {name} of namespace {client.namespace!r} isn't a {kind}; "
                "remove it or use another namespace"
            )
    return types


async def _add(client: Client, name: str) -> bool:
    """Add one: a server refuses a whole request for one name that it knows."""
    types = {name: _INDEXED_TYPES[SEARCH_ATTRIBUTES[name]]}
    try:
        await client.operator_service.add_search_attributes(
            AddSearchAttributesRequest(namespace=client.namespace, search_attributes=types)
        )
    except RPCError as error:
        if error.status is RPCStatusCode.ALREADY_EXISTS:
            return False
        raise
    return True


async def _until_visible(client: Client) -> None:
    """A start that names an attribute before the server knows it would fail for ever."""
    async with asyncio.timeout(VISIBLE_WITHIN_SECONDS):
        while True:
            known = await _known(client, unlisted=SEARCH_ATTRIBUTES)
            if all(name in known for name in SEARCH_ATTRIBUTES):
                return
            await asyncio.sleep(0.1)
