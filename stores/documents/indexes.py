"""The indexes, stated once; `muster setup` and the stack create them."""

from __future__ import annotations

from pymongo import ASCENDING, DESCENDING, IndexModel

from muster.stores.documents.connection import Mongo
from muster.stores.documents.names import PUBLIC_EVENTS, SESSIONS

_INDEXES: dict[str, list[IndexModel]] = {
    SESSIONS: [
        IndexModel(
            [("namespace_id", ASCENDING), ("closed_at", ASCENDING), ("_id", ASCENDING)],
            name="namespace_closed",
        ),
        IndexModel(
            [("namespace_id", ASCENDING), ("status", ASCENDING), ("_id", ASCENDING)],
            name="namespace_status",
        ),
        IndexModel(
            [
                ("namespace_id", ASCENDING),
                ("closed_at", ASCENDING),
                ("activity_at", DESCENDING),
                ("_id", ASCENDING),
            ],
            name="namespace_activity",
        ),
        IndexModel([("session_id", ASCENDING)], name="session"),
    ],
    PUBLIC_EVENTS: [
        IndexModel(
            [("namespace_id", ASCENDING), ("seq", ASCENDING)],
            name="namespace_seq",
            unique=True,
        ),
    ],
}
# Public events by id, contents and their chunks are found by `_id`.


async def ensure_indexes(mongo: Mongo) -> list[str]:
    """Create what is missing; the `collection.index` names of all.

    Raises:
        MongoUnavailable: No answer, or an index of the same name but another shape is there
            (`reason` is `refused`): drop that one and repeat.
    """
    names = []
    for collection, indexes in _INDEXES.items():
        with mongo.coded(f"create the indexes of {collection}"):
            created = await mongo.collection(collection).create_indexes(indexes)
        names += [f"{collection}.{name}" for name in created]
    return names


async def missing_indexes(mongo: Mongo) -> list[str]:
    """The `collection.index` names of those that aren't there.

    Raises:
        MongoUnavailable: No answer.
    """
    missing = []
    for collection, indexes in _INDEXES.items():
        with mongo.coded(f"look at the indexes of {collection}"):
            there = await mongo.collection(collection).index_information()
        wanted = [str(index.document["name"]) for index in indexes]
        missing += [f"{collection}.{name}" for name in wanted if name not in there]
    return missing
