"""What the Temporal UI shows of a workflow: search attributes and a short table."""

from __future__ import annotations

from datetime import datetime

from temporalio import workflow
from temporalio.common import SearchAttributeKey, SearchAttributePair, TypedSearchAttributes

from muster.domain.control import MusterStatus

NAMESPACE = SearchAttributeKey.for_keyword("MusterNamespace")
SESSION = SearchAttributeKey.for_keyword("MusterSession")
STATUS = SearchAttributeKey.for_keyword("MusterStatus")
ACTIVITY_AT = SearchAttributeKey.for_datetime("MusterActivityAt")


def session_attributes(
    namespace: str, session_id: str, status: MusterStatus, at: datetime
) -> TypedSearchAttributes:
    """The attributes with which a session's workflow starts."""
    return TypedSearchAttributes(
        [
            SearchAttributePair(NAMESPACE, namespace),
            SearchAttributePair(SESSION, session_id),
            SearchAttributePair(STATUS, status.value),
            SearchAttributePair(ACTIVITY_AT, at),
        ]
    )


def show_status(namespace: str, session_id: str, status: MusterStatus) -> None:
    """Put a status into the search attributes, where it isn't there already."""
    if workflow.info().typed_search_attributes.get(STATUS) != status.value:
        workflow.upsert_search_attributes(
            [
                NAMESPACE.value_set(namespace),
                SESSION.value_set(session_id),
                STATUS.value_set(status.value),
            ]
        )


def details_table(rows: dict[str, object]) -> str:
    """Rows as the markdown table that the UI renders; empty values are left out."""
    lines = [f"| {name} | {value} |" for name, value in rows.items() if value not in (None, "")]
    return "\n".join(["| | |", "|---|---|", *lines])
