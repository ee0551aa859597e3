"""From a query for summaries to MongoDB's selection, order and cursor."""

from __future__ import annotations

import base64
import binascii
from typing import Any

from pydantic import TypeAdapter, ValidationError
from pymongo import ASCENDING, DESCENDING

from muster.domain.canonical import canonical_json
from muster.domain.contract import Timestamp, parse_time, timestamp
from muster.domain.control import MusterStatus
from muster.domain.errors import InvalidInput
from muster.domain.summaries import SummaryOrder, SummaryQuery, summary_key
from muster.stores.documents.connection import Document

_AFTER_IDS = "\x7f"
"""Sorts after every character of an identifier."""

_Cursor = TypeAdapter(tuple[SummaryOrder, str, Timestamp])


def begins_with(prefix: str) -> Document:
    """The condition that a string begins with `prefix`, as a range that an index serves."""
    return {"$gte": prefix, "$lt": prefix + _AFTER_IDS}


def selection(query: SummaryQuery) -> Document:
    """Which documents fit, from the cursor on."""
    conditions: list[Document] = []
    if query.namespace_id is not None:
        conditions.append({"namespace_id": query.namespace_id})
        conditions.append({"_id": begins_with(summary_key(query.namespace_id, query.prefix))})
    elif query.prefix:
        conditions.append({"session_id": begins_with(query.prefix)})
    if query.statuses:
        conditions.append({"status": {"$in": [status.value for status in query.statuses]}})
    if not query.include_closed and MusterStatus.DONE not in query.statuses:
        conditions.append({"closed_at": None})
    if query.after is not None:
        conditions.append(_after(query.order, query.after))
    return {"$and": conditions} if conditions else {}


def sorting(order: SummaryOrder) -> list[tuple[str, int]]:
    """A total order: the key decides between equals."""
    by_key = ("_id", ASCENDING)
    return [by_key] if order is SummaryOrder.KEY else [("activity_at", DESCENDING), by_key]


def cursor_of(order: SummaryOrder, last: Document) -> str:
    """The cursor that continues after the document `last`."""
    place = [order.value, last["_id"], timestamp(last["activity_at"])]
    return base64.urlsafe_b64encode(canonical_json(place).encode()).decode().rstrip("=")


def _after(order: SummaryOrder, cursor: str) -> Document:
    its_order, key, activity_at = _read(cursor)
    if its_order is not order:
        raise InvalidInput(
            f"this cursor belongs to a list in the order {its_order}, not {order}; "
            "start again without it"
        )
    if order is SummaryOrder.KEY:
        return {"_id": {"$gt": key}}
    moment = parse_time(activity_at)
    return {
        "$or": [
            {"activity_at": {"$lt": moment}},
            {"activity_at": moment, "_id": {"$gt": key}},
        ]
    }


def _read(cursor: str) -> tuple[SummaryOrder, str, Any]:
    try:
        padded = cursor + "=" * (-len(cursor) % 4)
        return _Cursor.validate_json(base64.b64decode(padded, altchars=b"-_", validate=True))
    except (binascii.Error, ValidationError, ValueError) as error:
        raise InvalidInput(
            f"{cursor[:80]!r} isn't a cursor of a list of sessions; start again without it"
        ) from error
