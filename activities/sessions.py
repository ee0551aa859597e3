"""Activities of a session's workflow on its document."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime

from temporalio import activity

from muster.activities.errors import coded
from muster.activities.publishing import EventPublisher
from muster.domain.contract import timestamp
from muster.domain.contracts import Activities, CommitRequest, CommitResult, SessionRef
from muster.domain.control import ControlState, control_of
from muster.domain.errors import MongoUnavailable, StateCorrupt
from muster.stores.documents.sessions import SessionSummaries
from muster.stores.files.sessions import SessionStore


class SessionActivities:
    """Commits of a session's document, and the publication of what it owes.

    Args:
        sessions: Session documents.
        publisher: Takes events to the journal and to MongoDB.
        summaries: The list that readers see.
    """

    def __init__(
        self, sessions: SessionStore, publisher: EventPublisher, summaries: SessionSummaries
    ) -> None:
        self._sessions = sessions
        self._publisher = publisher
        self._summaries = summaries

    @activity.defn(name=Activities.OPEN_SESSION)
    @coded
    async def open(self, ref: SessionRef) -> ControlState:
        """The control state of the document as it is on disk."""
        async with self._marking(ref):
            document = await asyncio.to_thread(self._sessions.require, ref)
        return control_of(document)

    @activity.defn(name=Activities.COMMIT_SESSION)
    @coded
    async def commit(self, request: CommitRequest) -> CommitResult:
        """Apply one change at the expected revision; at another, say which, and change nothing."""
        async with self._marking(request.ref):
            committed = await asyncio.to_thread(
                self._sessions.commit,
                request.ref,
                request.expected_revision,
                request.change,
                request.at,
                request.delivered,
            )
        return CommitResult(outcome=committed.outcome, control=control_of(committed.document))

    @activity.defn(name=Activities.PUBLISH_EVENTS)
    @coded
    async def publish(self, ref: SessionRef) -> ControlState:
        """Take owed events to both sinks and refresh the readers' copy."""
        async with self._marking(ref):
            return control_of(await self._publisher.publish(ref))

    @asynccontextmanager
    async def _marking(self, ref: SessionRef) -> AsyncIterator[None]:
        """Show a session whose document had to be set aside as one that needs repair."""
        try:
            yield
        except StateCorrupt as error:
            with suppress(MongoUnavailable):
                await self._summaries.mark_needs_repair(
                    ref.namespace_id, ref.session_id, error.message, timestamp(datetime.now(UTC))
                )
            raise
