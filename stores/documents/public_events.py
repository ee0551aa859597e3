"""The second sink of public events: the collection `public_events`, for change streams.

The journal file decides order and sequence; this sink copies it. An event's `_id` is its
namespace and public id, and an index keeps its sequence unique, so that whatever is inserted twice
is there once. What is missing is always copied from the last sequence that is here, and a batch is
inserted in order, so a reader never meets a gap that is filled later, however a copy was
interrupted and whoever copies at the same time.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from itertools import pairwise

from pymongo import ASCENDING, DESCENDING
from pymongo.errors import BulkWriteError

from muster.domain.errors import InvalidInput, LimitExceeded, MongoUnavailable, StateCorrupt
from muster.domain.public_events import EVENT_BATCH, PublicEvent
from muster.stores.documents.connection import Document, Mongo
from muster.stores.documents.failures import only_duplicates
from muster.stores.documents.names import PUBLIC_EVENTS

READ_LIMIT = 1000
"""How many events one read returns at most."""

ReadJournal = Callable[[int, int], Awaitable[Sequence[PublicEvent]]]
"""From a sequence and a number: at most so many of the events after it, in order."""


class PublicEvents:
    """The collection `public_events`. Every method may be repeated.

    All methods raise MongoUnavailable when there is no answer within the connection's limits.
    """

    def __init__(self, mongo: Mongo) -> None:
        self._mongo = mongo
        self._collection = mongo.collection(PUBLIC_EVENTS)

    async def insert(self, events: Sequence[PublicEvent]) -> None:
        """Insert what isn't there yet of a batch; three commands at most unless writers race.

        Args:
            events: Of one namespace, in order of their sequence, up to `EVENT_BATCH`. What the
                journal has between or before them has to be here already: see `backfill`.

        Raises:
            LimitExceeded: More than `EVENT_BATCH`.
            InvalidInput: Not of one namespace, or not in order.
            StateCorrupt: An id is there with another sequence or content, or a sequence with
                another id. What came before it in the batch is inserted.
        """
        _check_batch(events)
        missing = [_stored(event) for event in events]
        while missing:
            done = await self._insert(missing)
            if done == len(missing):
                return
            left = await self._without_stored(missing[done:])
            if len(left) == len(missing) - done:
                raise MongoUnavailable(
                    f"public event {left[0]['_id']} is refused as a duplicate at "
                    f"{self._mongo.where} and isn't there: the server changed its primary, or "
                    f"{PUBLIC_EVENTS} has a unique index that isn't Muster's; try again",
                    reason="refused",
                )
            missing = left

    async def backfill(
        self,
        namespace_id: str,
        read_journal: ReadJournal,
        up_to: int | None = None,
        expected: int = 0,
    ) -> int:
        """Copy what the journal has and this sink doesn't, in order.

        The ordinary way to publish, too: whoever appended copies up to the own last event, and
        with it what others appended before. A batch costs two commands.

        Args:
            namespace_id: The namespace.
            read_journal: Gives only what is durable. Where events were removed or are damaged it
                goes on behind them: they are missing here, too.
            up_to: Stop once this sequence is here; without it, at the journal's end.
            expected: As for `last_seq`.

        Returns:
            The last sequence that is here now; 0 if there is none.

        Raises:
            StateCorrupt: As `insert`.
        """
        last = await self.last_seq(namespace_id, expected)
        while up_to is None or last < up_to:
            events = await read_journal(last, EVENT_BATCH)
            if not events:
                break
            await self.insert(events)
            last = events[-1].seq
        return last

    async def last_seq(self, namespace_id: str, expected: int = 0) -> int:
        """The sequence of the namespace's last event here; 0 if there is none.

        Args:
            expected: Where the last one probably is. It is looked for from there on, then from
                further and further back: SecantusDB sorts whatever a query selects, and all that
                was ever published is too much to be sorted for each batch.
        """
        back = 0
        while expected > back:
            last = await self._newest(namespace_id, expected - back)
            if last:
                return last
            back = back * 8 or EVENT_BATCH
        return await self._newest(namespace_id, 0)

    async def _newest(self, namespace_id: str, at_least: int) -> int:
        """The last sequence that isn't below `at_least`; 0 if there is none."""
        wanted = {"namespace_id": namespace_id, "seq": {"$gte": at_least}}
        with self._mongo.coded(f"read the last public event of {namespace_id}"):
            last = await self._collection.find_one(wanted, {"seq": 1}, sort=[("seq", DESCENDING)])
        return int(last["seq"]) if last else 0

    async def first_seq(self, namespace_id: str) -> int:
        """The sequence of the namespace's oldest event here; 0 if there is none."""
        with self._mongo.coded(f"read the first public event of {namespace_id}"):
            first = await self._collection.find_one(
                {"namespace_id": namespace_id}, {"seq": 1}, sort=[("seq", ASCENDING)]
            )
        return int(first["seq"]) if first else 0

    async def read(
        self, namespace_id: str, after: int = 0, limit: int = READ_LIMIT
    ) -> tuple[PublicEvent, ...]:
        """The events after a sequence, in order, at most `limit` (up to `READ_LIMIT`)."""
        found = (
            self._collection.find({"namespace_id": namespace_id, "seq": {"$gt": after}}, {"_id": 0})
            .sort("seq", ASCENDING)
            .limit(max(1, min(limit, READ_LIMIT)))
        )
        with self._mongo.coded(f"read public events of {namespace_id}"):
            return tuple([PublicEvent.model_validate(each) async for each in found])

    async def _insert(self, documents: Sequence[Document]) -> int:
        """Insert in order up to the first duplicate: how many."""
        with self._mongo.coded(f"insert public events of {documents[0]['namespace_id']}"):
            try:
                await self._collection.insert_many(documents, ordered=True)
            except BulkWriteError as error:
                if not only_duplicates(error):
                    raise
                return int(error.details["nInserted"])
        return len(documents)

    async def _without_stored(self, documents: Sequence[Document]) -> list[Document]:
        """Those of `documents` that aren't stored; all that are must be the same there."""
        namespace_id = documents[0]["namespace_id"]
        same_id = {"_id": {"$in": [each["_id"] for each in documents]}}
        same_seq = {
            "namespace_id": namespace_id,
            "seq": {"$gte": documents[0]["seq"], "$lte": documents[-1]["seq"]},
        }
        with self._mongo.coded(f"compare public events of {namespace_id}"):
            found = await self._collection.find({"$or": [same_id, same_seq]}).to_list()
        by_id = {each["_id"]: each for each in found}
        by_seq = {each["seq"]: each for each in found}
        left = []
        for document in documents:
            stored = by_id.get(document["_id"]) or by_seq.get(document["seq"])
            if stored is None:
                left.append(document)
            elif stored != document:
                raise _different(document, stored, self._mongo.where)
        return left


def _check_batch(events: Sequence[PublicEvent]) -> None:
    if len(events) > EVENT_BATCH:
        raise LimitExceeded(f"{len(events)} public events in a batch; {EVENT_BATCH} are the limit")
    for one, next_one in pairwise(events):
        if next_one.namespace_id != one.namespace_id or next_one.seq <= one.seq:
            raise InvalidInput(
                f"public event {next_one.namespace_id}:{next_one.seq} doesn't follow "
                f"{one.namespace_id}:{one.seq}; a batch is of one namespace, in order"
            )


def _different(asked: Document, stored: Document, where: str) -> StateCorrupt:
    return StateCorrupt(
        f"public event {asked['_id']} with sequence {asked['seq']} is at {where} as "
        f"{stored['_id']} with sequence {stored['seq']} or with other content; the journal file is "
        f"the authority: remove the namespace's events from {PUBLIC_EVENTS} and publish again",
        public_event_id=asked["public_event_id"],
        seq=asked["seq"],
        stored_seq=stored["seq"],
    )


def _stored(event: PublicEvent) -> Document:
    return {
        "_id": f"{event.namespace_id}/{event.public_event_id}",
        **event.model_dump(mode="json"),
    }
