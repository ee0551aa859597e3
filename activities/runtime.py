"""Activities that touch an agent runtime: on the host that owns it, repeatable by key."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import AsyncIterator, Mapping
from datetime import UTC, datetime
from pathlib import Path

from temporalio import activity

from muster.activities.errors import RETRIED, coded
from muster.activities.heartbeats import heartbeating, until_worker_stops
from muster.activities.publishing import EventPublisher
from muster.domain.changes import RecordDelivery
from muster.domain.contract import timestamp
from muster.domain.contracts import Activities, DeliverTurn, FollowTurn, SessionRef
from muster.domain.errors import (
    MusterError,
    ResourceGone,
    RuntimeGone,
    RuntimeUnavailable,
    WorkingDirectoryUnusable,
)
from muster.domain.faults import fault_point
from muster.domain.runtime import (
    AgentExited,
    AnswerCommand,
    AnswerReceipt,
    Closed,
    CloseRequest,
    DeliverReceipt,
    DeliverRequest,
    EndpointClosed,
    FollowRequest,
    FollowResult,
    GateOpened,
    InterruptRequest,
    Launched,
    LaunchRequest,
    LaunchState,
    RejectedEvent,
    RuntimeEvent,
    RuntimeKind,
    TurnEnded,
)
from muster.domain.turn_model import Content
from muster.runtimes.protocol import AgentRuntime
from muster.stores.documents.content import Contents
from muster.stores.files.sessions import SessionStore

ANNOUNCE_AFTER_SECONDS = 0.25
"""How long a turn runs before it is announced; one that ends sooner is published at its end."""

ANNOUNCE_BACKOFF = (1, 2, 5, 10)
"""Seconds between attempts to announce a turn."""

POLL_SECONDS = 20.0
"""How long one question to the runtime waits for its next event."""


class RuntimeActivities:
    """Commands to agent runtimes and their events.

    Args:
        runtimes: The adapters by kind.
        sessions: Session documents, from which prompts are read.
        contents: Prompts that are too long for a document.
        publisher: Takes events to the journal and to MongoDB.
    """

    def __init__(
        self,
        runtimes: Mapping[RuntimeKind, AgentRuntime],
        sessions: SessionStore,
        contents: Contents,
        publisher: EventPublisher,
    ) -> None:
        self._runtimes = runtimes
        self._sessions = sessions
        self._contents = contents
        self._publisher = publisher

    def _runtime(self, kind: RuntimeKind) -> AgentRuntime:
        runtime = self._runtimes.get(kind)
        if runtime is None:
            raise RuntimeUnavailable(f"this worker has no {kind} runtime; start one that has")
        return runtime

    @activity.defn(name=Activities.LAUNCH)
    @coded
    async def launch(self, request: LaunchRequest) -> Launched:
        """Start the agent, or adopt what this remote creation key already started."""
        runtime = self._runtime(request.runtime)
        async with heartbeating():
            found = await runtime.find_launch(request)
            if found.state == LaunchState.RUNNING and found.launched is not None:
                return found.launched
            if found.state == LaunchState.ENDED:
                raise RuntimeGone(
                    f"the agent of session {request.session_id} was started and has ended "
                    f"({found.evidence}); create the session again under a new key"
                )
            if found.state == LaunchState.UNKNOWN:
                raise RuntimeUnavailable(
                    f"whether session {request.session_id} was launched can't be told yet: "
                    f"{found.evidence}"
                )
            await asyncio.to_thread(_require_directory, request.cwd)
            launched = await runtime.launch(request)
        fault_point("launch.answered")
        return launched

    @activity.defn(name=Activities.ADOPT_LAUNCH)
    @coded
    async def adopt_launch(self, request: LaunchRequest) -> Launched:
        """What this remote creation key already started; nothing is launched."""
        async with heartbeating():
            found = await self._runtime(request.runtime).find_launch(request)
        if found.launched is None:
            raise RuntimeUnavailable(
                f"there is nothing to adopt yet: the launch of session {request.session_id} is "
                f"{found.state} ({found.evidence})",
                state=found.state,
            )
        return found.launched

    @activity.defn(name=Activities.END_LAUNCH)
    @coded
    async def end_launch(self, request: LaunchRequest) -> Closed:
        """End whatever this remote creation key started; repeated until nothing can be left.

        The private key is gone by then, so that what begins after the look-up ends by itself.
        """
        runtime = self._runtime(request.runtime)
        async with heartbeating():
            found = await runtime.find_launch(request)
            if found.state == LaunchState.UNKNOWN:
                raise RuntimeUnavailable(
                    f"whether an agent of session {request.session_id} is left can't be told yet: "
                    f"{found.evidence}"
                )
            if found.launched is None:
                return Closed(already_gone=True)
            endpoint = found.launched.endpoint
            try:
                return await runtime.close(
                    CloseRequest(
                        endpoint=endpoint, key=f"abandon_{request.remote_create_key}"[:128]
                    )
                )
            except RuntimeGone:
                return Closed(already_gone=True)

    @activity.defn(name=Activities.DELIVER)
    @coded
    async def deliver(self, request: DeliverTurn) -> DeliverReceipt:
        """Hand a turn's prompt over; the runtime takes it once for its key."""
        document = await asyncio.to_thread(self._sessions.require, request.ref)
        turn = document.canonical.turns.get(request.turn_id)
        if turn is None:
            raise ResourceGone(f"turn {request.turn_id} isn't in its session's document")
        async with heartbeating():
            delivery = DeliverRequest(
                endpoint=request.endpoint,
                key=request.key,
                turn_id=request.turn_id,
                text=await self._whole_text(turn.prompt),
            )
            return await self._runtime(request.endpoint.runtime).deliver(delivery)

    async def _whole_text(self, content: Content) -> str:
        """The text itself, fetched by its sha256 if the document holds only its beginning."""
        if not content.truncated or content.sha256 is None:
            return content.text
        pieces = [piece async for piece in self._contents.read(content.sha256)]
        return b"".join(pieces).decode()

    @activity.defn(name=Activities.FOLLOW)
    @coded
    async def follow(self, request: FollowTurn) -> FollowResult:
        """Wait until a gate opens, a turn ends or the runtime does; returns all up to there.

        Reads from the request's cursor each time it is tried, so that nothing is lost with a
        worker. Cancelling it loses nothing either. Beside a wait that lasts it records and
        announces that the turn runs: the workflow's own commit would hold up the wait.
        """
        async with heartbeating(), self._announcing(request.ref, request.delivered):
            return await self._until_it_matters(request.request)

    @contextlib.asynccontextmanager
    async def _announcing(
        self, ref: SessionRef, delivered: RecordDelivery | None
    ) -> AsyncIterator[None]:
        """Record and publish while the block runs that the runtime has the prompt.

        The workflow does both again after: each is done once, whoever comes first.
        """

        async def announce(delivery: RecordDelivery) -> None:
            await asyncio.sleep(ANNOUNCE_AFTER_SECONDS)
            for seconds in itertools.chain(ANNOUNCE_BACKOFF, itertools.repeat(30)):
                try:
                    await asyncio.to_thread(self._record, ref, delivery)
                    return await self._publisher.announce(ref)
                except RETRIED as error:
                    activity.logger.warning("events aren't published yet: %s", error.message)
                    await asyncio.sleep(seconds)
                except MusterError:
                    return None  # The workflow meets the same and says so.
            return None

        announcing = asyncio.create_task(announce(delivered)) if delivered else None
        try:
            yield
        finally:
            if announcing is not None:
                announcing.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await announcing

    def _record(self, ref: SessionRef, delivery: RecordDelivery) -> None:
        """Commit it at whatever revision the document has: a receipt changes nothing else."""
        outcome = None
        while outcome is None:
            revision = self._sessions.require(ref).revision
            at = timestamp(datetime.now(UTC))
            outcome = self._sessions.commit(ref, revision, delivery, at).outcome

    async def _until_it_matters(self, request: FollowRequest) -> FollowResult:
        wanted = request.model_copy(update={"wait_seconds": POLL_SECONDS})
        runtime = self._runtime(wanted.endpoint.runtime)
        events: list[RuntimeEvent] = []
        rejected: list[RejectedEvent] = []
        while True:
            try:
                page = await until_worker_stops(runtime.follow(wanted))
            except RuntimeGone:
                page = FollowResult(cursor=wanted.after, gone=True)
            events += page.events
            rejected += page.rejected
            done = page.gone or rejected or len(events) >= wanted.limit
            if done or any(_matters(event) for event in page.events):
                return FollowResult(
                    events=tuple(events),
                    rejected=tuple(rejected),
                    cursor=page.cursor,
                    gone=page.gone,
                )
            wanted = wanted.model_copy(update={"after": page.cursor})

    @activity.defn(name=Activities.ANSWER)
    @coded
    async def answer(self, request: AnswerCommand) -> AnswerReceipt:
        """Answer a gate; a runtime that has ended rejects."""
        async with heartbeating():
            try:
                return await self._runtime(request.endpoint.runtime).answer(request)
            except RuntimeGone as error:
                return AnswerReceipt(status="rejected", reason=error.message)

    @activity.defn(name=Activities.INTERRUPT)
    @coded
    async def interrupt(self, request: InterruptRequest) -> None:
        """Cancel the running turn; a runtime that has ended has nothing to cancel."""
        async with heartbeating():
            try:
                await self._runtime(request.endpoint.runtime).interrupt(request)
            except RuntimeGone:
                return

    @activity.defn(name=Activities.CLOSE_RUNTIME)
    @coded
    async def close(self, request: CloseRequest) -> Closed:
        """End the agent; one that is already gone is closed."""
        async with heartbeating():
            try:
                closed = await self._runtime(request.endpoint.runtime).close(request)
            except RuntimeGone:
                closed = Closed(already_gone=True)
        fault_point("close.runtime_closed")
        return closed


def _matters(event: RuntimeEvent) -> bool:
    return isinstance(event, GateOpened | TurnEnded | AgentExited | EndpointClosed)


def _require_directory(path: str) -> None:
    directory = Path(path)
    if not directory.is_absolute() or not directory.is_dir():
        raise WorkingDirectoryUnusable(
            f"working directory {path} isn't an existing directory on this host; "
            "give an absolute path that the worker's host has"
        )
