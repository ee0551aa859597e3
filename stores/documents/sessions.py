"""One summary for each session: what `session ls` reads without a worker or a workflow.

Three workflows write here, and a late attempt of an older worker must change nothing. So a write
is one conditional command:

- the same incarnation: only a higher revision replaces, and nothing does once it is closed;
- another incarnation: it replaces a closed one, or one of a lower generation (of the same
  generation: created earlier), and never one that came after it. The incarnations that were
  replaced are kept with the summary (the last 32), so that order doesn't depend on a clock.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from pymongo.errors import DuplicateKeyError

from muster.domain.contract import Timestamp, parse_time, timestamp
from muster.domain.control import MusterStatus
from muster.domain.faults import fault_point
from muster.domain.summaries import SessionSummary, SummaryPage, SummaryQuery, summary_key
from muster.domain.view import SessionView
from muster.stores.documents.connection import Document, Mongo
from muster.stores.documents.names import SESSIONS
from muster.stores.documents.summary_query import (
    begins_with,
    cursor_of,
    selection,
    sorting,
)

RESOLVED_LIMIT = 10
"""How many ids a prefix resolves to at most."""

VIEW = "view"
"""The field that holds the read copy; lists leave it out."""

_REPLACED_KEPT = 32
_WITHOUT_VIEW = {VIEW: 0}
_TIMES = ("created_at", "updated_at", "activity_at", "closed_at")


class SessionSummaries:
    """The collection `sessions`. Every method may be repeated: it has the effect of one call.

    All methods raise MongoUnavailable when there is no answer within the connection's limits.
    """

    def __init__(self, mongo: Mongo) -> None:
        self._mongo = mongo
        self._collection = mongo.collection(SESSIONS)

    async def write(self, summary: SessionSummary, view: SessionView | None = None) -> bool:
        """Put a summary in the place of an older one, with the read copy of the same revision.

        Returns:
            True if this revision is stored, by this call or an earlier one; False if something
            newer is: nothing was changed then.
        """
        return await self._replace(summary, _older_than(summary), view)

    async def mark_uncertain(self, creation: SessionSummary) -> bool:
        """Show a creation that may have launched an agent and has no document yet.

        Args:
            creation: Made by `summary_of_uncertain_creation`.

        Returns:
            False if the session has a document, or had one that was created later: nothing was
            changed then.
        """
        at = parse_time(creation.created_at)
        earlier = {
            "$or": [
                {"incarnation": None, "closed_at": None, "created_at": {"$lte": at}},
                {"closed_at": {"$ne": None}, "created_at": {"$lt": at}},
            ]
        }
        return await self._replace(creation, earlier)

    async def mark_close_uncertain(
        self,
        namespace_id: str,
        session_id: str,
        incarnation: str,
        reason: str,
        workflow_id: str | None = None,
    ) -> bool:
        """Show that nobody can say whether the session's runtime has ended.

        Returns:
            False if this incarnation isn't stored or is closed: nothing was changed then.
        """
        uncertain = {
            "status": MusterStatus.UNCERTAIN.value,
            "uncertain": reason,
            "uncertain_workflow": workflow_id,
        }
        return await self._set(
            {
                "_id": summary_key(namespace_id, session_id),
                "incarnation": incarnation,
                "closed_at": None,
            },
            uncertain,
        )

    async def close(
        self,
        namespace_id: str,
        session_id: str,
        incarnation: str | None,
        closed_at: Timestamp,
        status: MusterStatus = MusterStatus.DONE,
    ) -> bool:
        """Say that the session has ended; the first time given stays.

        Args:
            namespace_id: The session's namespace.
            session_id: The session.
            incarnation: The one that ended; None for a creation that was given up.
            closed_at: When.
            status: What lists show from now on.

        Returns:
            True if it is closed, False if this incarnation isn't stored.
        """
        named = {"_id": summary_key(namespace_id, session_id), "incarnation": incarnation}
        ended = {
            "status": status.value,
            "closed_at": parse_time(closed_at),
            "uncertain": None,
            "uncertain_workflow": None,
            "queued": 0,
            "open_questions": 0,
        }
        if await self._set({**named, "closed_at": None}, ended):
            return True
        with self._mongo.coded(f"read the summary of {named['_id']}"):
            return await self._collection.find_one(named, {"_id": 1}) is not None

    async def mark_needs_repair(
        self, namespace_id: str, session_id: str, reason: str, at: Timestamp
    ) -> bool:
        """Show that the session's document was set aside; its next document clears it.

        Args:
            namespace_id: The session's namespace.
            session_id: The session.
            reason: Which rule it breaks, and where it was put.
            at: When it was found; the only time there is if the session has no summary.

        Returns:
            False if the session is closed: nothing was changed then.
        """
        key = summary_key(namespace_id, session_id)
        unknown = SessionSummary(
            namespace_id=namespace_id,
            session_id=session_id,
            status=MusterStatus.UNCERTAIN,
            created_at=at,
            updated_at=at,
            activity_at=at,
        )
        first = {
            name: value
            for name, value in _stored(unknown).items()
            if name not in {"_id", "closed_at", "needs_repair"}
        }
        with self._mongo.coded(f"mark {key} for repair"):
            try:
                await self._collection.update_one(
                    {"_id": key, "closed_at": None},
                    {"$set": {"needs_repair": reason}, "$setOnInsert": first},
                    upsert=True,
                )
            except DuplicateKeyError:
                return False
        return True

    async def mark_repaired(self, namespace_id: str, session_id: str) -> None:
        """Clear the mark of a session whose document is good at the revision that is stored."""
        key = summary_key(namespace_id, session_id)
        await self._set({"_id": key}, {"needs_repair": None})

    async def get(self, namespace_id: str, session_id: str) -> SessionSummary | None:
        """The summary of a session, closed or not."""
        key = summary_key(namespace_id, session_id)
        with self._mongo.coded(f"read the summary of {key}"):
            found = await self._collection.find_one({"_id": key}, _WITHOUT_VIEW)
        return _summary(found) if found else None

    async def get_view(self, namespace_id: str, session_id: str) -> SessionView | None:
        """The session's read copy; None if there is no such session or it has no document."""
        with self._mongo.coded(f"read the session {session_id}"):
            found = await self._collection.find_one(
                {"_id": summary_key(namespace_id, session_id)}, {VIEW: 1}
            )
        stored = found.get(VIEW) if found else None
        return SessionView.model_validate(stored) if stored else None

    async def list(self, query: SummaryQuery) -> SummaryPage:
        """A page of the sessions that fit.

        Raises:
            InvalidInput: `after` isn't a `next_after` of a query in the same order.
        """
        found = (
            self._collection.find(selection(query), _WITHOUT_VIEW)
            .sort(sorting(query.order))
            .limit(query.limit + 1)
        )
        with self._mongo.coded("list sessions"):
            documents = await found.to_list()
        shown = documents[: query.limit]
        more = len(documents) > query.limit
        return SummaryPage(
            summaries=tuple(_summary(each) for each in shown),
            next_after=cursor_of(query.order, shown[-1]) if more else None,
        )

    async def resolve_prefix(
        self, namespace_id: str, prefix: str, *, include_closed: bool = False
    ) -> tuple[str, ...]:
        """The session ids that begin with `prefix`, an exact one first; at most ten."""
        wanted: Document = {"_id": begins_with(summary_key(namespace_id, prefix))}
        if not include_closed:
            wanted["closed_at"] = None
        found = self._collection.find(wanted, {"session_id": 1}).sort("_id").limit(RESOLVED_LIMIT)
        with self._mongo.coded(f"look for sessions of {namespace_id}"):
            return tuple([each["session_id"] async for each in found])

    async def _replace(
        self, summary: SessionSummary, older: Document, view: SessionView | None = None
    ) -> bool:
        wanted = {"_id": summary.key, **older}
        change = _replacement(summary, view)
        with self._mongo.coded(f"write the summary of {summary.key}"):
            try:
                await self._collection.update_one(wanted, change, upsert=True)
            except DuplicateKeyError:
                # There is one: newer, or inserted by another writer in this very moment.
                result = await self._collection.update_one(wanted, change)
                if not result.matched_count:
                    return await self._holds(summary)
        fault_point("summary.written")
        return True

    async def _holds(self, summary: SessionSummary) -> bool:
        facts = {
            "_id": summary.key,
            "incarnation": summary.incarnation,
            "revision": summary.revision,
            "created_at": parse_time(summary.created_at),
            "closed_at": None,
        }
        return await self._collection.find_one(facts, {"_id": 1}) is not None

    async def _set(self, wanted: Document, values: Document) -> bool:
        with self._mongo.coded(f"change the summary of {wanted['_id']}"):
            result = await self._collection.update_one(wanted, {"$set": values})
        return result.matched_count == 1


def _older_than(summary: SessionSummary) -> Document:
    """What a stored summary is like that `summary` may replace."""
    mine = {
        "incarnation": summary.incarnation,
        "closed_at": None,
        "revision": {"$lt": summary.revision},
    }
    # A creation without a document, or a mark for repair without one.
    nobodys = {"incarnation": None}
    anothers = {
        "incarnation": {"$nin": [summary.incarnation, None]},
        "$or": [
            {"closed_at": {"$ne": None}},
            {"generation": {"$lt": summary.generation}},
            {
                "generation": summary.generation,
                "created_at": {"$lt": parse_time(summary.created_at)},
            },
        ],
    }
    return {"replaced": {"$ne": summary.incarnation}, "$or": [mine, nobodys, anothers]}


def _replacement(summary: SessionSummary, view: SessionView | None) -> list[Document]:
    """The update that puts `summary` there and keeps which incarnations it replaced."""
    replaced = {"$ifNull": ["$replaced", []]}
    followed = {"$in": [{"$ifNull": ["$incarnation", None]}, [None, summary.incarnation]]}
    with_the_last = {"$slice": [{"$concatArrays": [replaced, ["$incarnation"]]}, -_REPLACED_KEPT]}
    kept = {"replaced": {"$cond": [followed, replaced, with_the_last]}}
    stored = {**_stored(summary), VIEW: view.model_dump(mode="json") if view else None}
    return [{"$replaceWith": {"$mergeObjects": [{"$literal": stored}, kept]}}]


def _stored(summary: SessionSummary) -> Document:
    document: dict[str, Any] = {"_id": summary.key, **summary.model_dump(mode="json")}
    for name in _TIMES:
        if document[name] is not None:
            document[name] = parse_time(document[name])
    return document


def _summary(document: Document) -> SessionSummary:
    fields = {name: value for name, value in document.items() if name not in {"_id", "replaced"}}
    for name in _TIMES:
        if isinstance(fields.get(name), datetime):
            fields[name] = timestamp(fields[name])
    return SessionSummary.model_validate(fields)
