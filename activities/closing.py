"""Activities of a close: ask the session's workflow, capture, drain, remove."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from datetime import UTC, datetime
from typing import TypeVar

from temporalio import activity
from temporalio.client import WorkflowUpdateFailedError
from temporalio.exceptions import ApplicationError
from temporalio.service import RPCError, RPCStatusCode

from muster.activities.errors import coded
from muster.activities.heartbeats import heartbeating
from muster.activities.publishing import EventPublisher
from muster.domain.canonical import canonical_digest
from muster.domain.changes import AdmitClose, Change, CloseAdmitted, EndClose
from muster.domain.closing import CloseAnswer, CloseCommand, Tombstone
from muster.domain.contract import Contract, timestamp
from muster.domain.contracts import (
    Activities,
    MarkUncertain,
    RemoveSession,
    SessionRef,
    Updates,
)
from muster.domain.control import endpoint_of
from muster.domain.errors import (
    IdempotencyConflict,
    MusterError,
    ResourceGone,
    StorageUnavailable,
    TemporalUnavailable,
    error_from_code,
)
from muster.domain.faults import fault_point
from muster.domain.identifiers import deletion_id, session_workflow_id
from muster.domain.session_document import SessionDocument
from muster.stores.documents.sessions import SessionSummaries
from muster.stores.files import paths
from muster.stores.files.receipts import ReceiptStore
from muster.stores.files.sessions import Committed, SessionStore

ResultT = TypeVar("ResultT")


class ClosingActivities:
    """What `CloseSession` does, beside ending the runtime.

    Args:
        receipts: Tombstones and keys.
        sessions: Session documents.
        publisher: For what is still owed when the session's workflow is gone.
        summaries: The list that readers see.
    """

    def __init__(
        self,
        receipts: ReceiptStore,
        sessions: SessionStore,
        publisher: EventPublisher,
        summaries: SessionSummaries,
    ) -> None:
        self._receipts = receipts
        self._sessions = sessions
        self._publisher = publisher
        self._summaries = summaries

    @activity.defn(name=Activities.REQUEST_CLOSE)
    @coded
    async def request_close(self, command: CloseCommand) -> Tombstone:
        """Have the session's one writer admit the close, and capture what will be removed.

        Repeatable: a tombstone that is there is the answer, complete or not.
        """
        tombstone = await asyncio.to_thread(
            self._receipts.tombstone, command.namespace_id, command.deletion_id
        )
        if tombstone is not None:
            _require_same_close(tombstone, command)
            return tombstone
        ref = _ref(command)
        async with heartbeating():
            admitted = await self._admit(ref, command)
            tombstone = await asyncio.to_thread(self._capture, ref, command, admitted)
        fault_point("close.tombstone_written")
        return tombstone

    def _capture(
        self, ref: SessionRef, command: CloseCommand, admitted: CloseAdmitted
    ) -> Tombstone:
        document = self._sessions.require(ref)
        return self._receipts.file_tombstone(_tombstone(command, admitted, document))

    async def _admit(self, ref: SessionRef, command: CloseCommand) -> CloseAdmitted:
        change = AdmitClose(
            deletion_id=command.deletion_id,
            key_digest=command.key_digest,
            request_digest=command.request_digest,
            incarnation=command.incarnation,
            idle_before=command.idle_before,
            force=command.force,
        )
        try:
            return await self._update(ref, Updates.ADMIT_CLOSE, change, CloseAdmitted)
        except ResourceGone:
            committed = await asyncio.to_thread(self._commit_directly, ref, change)
        assert isinstance(committed.outcome, CloseAdmitted)
        return committed.outcome

    @activity.defn(name=Activities.FINISH_SESSION)
    @coded
    async def finish_session(self, ref: SessionRef) -> int:
        """Wait until the session's workflow has ended, and publish all it left with its last event.

        Returns the journal's sequence of that event, `session.closed`.
        """
        async with heartbeating():
            with suppress(ResourceGone):
                await self._update(ref, Updates.DRAIN, ref, bool)
            # Nobody else writes the document from here on.
            try:
                return await self._publish_the_rest(ref)
            except ResourceGone:  # removed already, so it was published before
                return await self._publisher.last_sequence(ref.namespace_id)

    async def _publish_the_rest(self, ref: SessionRef) -> int:
        change = EndClose(deletion_id=deletion_id(ref.session_id, ref.incarnation))
        committed = await asyncio.to_thread(self._commit_directly, ref, change)
        last = await self._publisher.publish_the_last(ref, committed.document)
        fault_point("close.ended")
        return last

    def _commit_directly(self, ref: SessionRef, change: Change) -> Committed:
        """Commit where no workflow writes: the folder's lock alone orders the commits."""
        document = self._sessions.require(ref)
        at = timestamp(datetime.now(UTC))
        committed = self._sessions.commit(ref, document.revision, change, at)
        if committed.outcome is None:
            raise StorageUnavailable(f"session {ref.session_id} changed meanwhile; trying again")
        return committed

    async def _update(
        self, ref: SessionRef, update: Updates, argument: Contract, result: type[ResultT]
    ) -> ResultT:
        """Send an update to the session's workflow.

        Raises ResourceGone if there is no such workflow, the coded error if it refuses, and
        TemporalUnavailable for whatever should be tried again.
        """
        handle = activity.client().get_workflow_handle(
            session_workflow_id(ref.namespace_id, ref.session_id)
        )
        try:
            answer: ResultT = await handle.execute_update(update, argument, result_type=result)
        except WorkflowUpdateFailedError as error:
            raise _refusal(error) from error
        except RPCError as error:
            if error.status == RPCStatusCode.NOT_FOUND:
                raise ResourceGone(f"no workflow runs for session {ref.session_id}") from error
            raise TemporalUnavailable(f"{update} of session {ref.session_id}: {error}") from error
        return answer

    @activity.defn(name=Activities.MARK_CLOSE_UNCERTAIN)
    @coded
    async def mark_uncertain(self, request: MarkUncertain) -> None:
        """Show in the list of sessions that nobody knows whether the runtime has ended."""
        await self._summaries.mark_close_uncertain(
            request.namespace_id,
            request.session_id,
            request.incarnation or "",
            request.reason,
            activity.info().workflow_id,
        )

    @activity.defn(name=Activities.REMOVE_SESSION)
    @coded
    async def remove_session(self, request: RemoveSession) -> CloseAnswer:
        """Remove the session's own folder, its document last, and complete the tombstone."""
        async with heartbeating():
            answer = await asyncio.to_thread(self._remove, request)
        command = request.command
        await self._summaries.close(
            command.namespace_id, command.session_id, command.incarnation, answer.completed_at
        )
        return answer

    def _remove(self, request: RemoveSession) -> CloseAnswer:
        """Under the folder's lock as a whole: no session of this id can begin in between."""
        command = request.command
        tombstone = self._tombstone(command)
        answer = _answer(request, tombstone)

        def is_done() -> bool:
            return self._tombstone(command).answer is not None

        def done() -> None:
            self._receipts.remove_key(command.namespace_id, tombstone.endpoint.verifier.key_id)
            self._receipts.complete_tombstone(tombstone.model_copy(update={"answer": answer}))
            fault_point("close.tombstone_completed")

        removed = self._sessions.remove(
            _ref(command),
            _launch_folder(tombstone),
            keep_history=command.keep_history,
            is_done=is_done,
            done=done,
        )
        return answer if removed else self._tombstone(command).answer or answer

    def _tombstone(self, command: CloseCommand) -> Tombstone:
        found = self._receipts.tombstone(command.namespace_id, command.deletion_id)
        if found is None:
            raise ResourceGone(f"the tombstone {command.deletion_id} is missing; close again")
        return found


def _launch_folder(tombstone: Tombstone) -> str:
    """The folder of the launch that ended, if it is one of this state root."""
    own = f"{paths.session_folder(tombstone.namespace_id, tombstone.session_id)}/runtime/"
    where = tombstone.endpoint.endpoint_url.removeprefix("acp:")
    return where if where.startswith(own) else ""


def _ref(command: CloseCommand) -> SessionRef:
    return SessionRef(
        namespace_id=command.namespace_id,
        session_id=command.session_id,
        incarnation=command.incarnation,
    )


def _require_same_close(tombstone: Tombstone, command: CloseCommand) -> None:
    known = (tombstone.key_digest, tombstone.request_digest)
    if known == (command.key_digest, command.request_digest):
        return
    state = "is being closed" if tombstone.answer is None else "was closed"
    differs = "another key" if tombstone.key_digest != command.key_digest else "other options"
    raise IdempotencyConflict(
        f"session {command.session_id} {state} with {differs} since {tombstone.created_at}; "
        "nothing was changed",
        deletion_id=tombstone.deletion_id,
        completed_at=tombstone.answer.completed_at if tombstone.answer else None,
    )


def _answer(request: RemoveSession, tombstone: Tombstone) -> CloseAnswer:
    command = request.command
    return CloseAnswer(
        namespace_id=command.namespace_id,
        session_id=command.session_id,
        incarnation=command.incarnation,
        deletion_id=command.deletion_id,
        runtime_already_gone=request.closed.already_gone,
        runtime_abandoned=request.abandoned,
        settled_turn_ids=tombstone.settled_turn_ids,
        kept_history=command.keep_history,
        last_journal_seq=request.last_journal_seq,
        # The same for each attempt: a late one may not give another answer than was given.
        completed_at=timestamp(activity.info().scheduled_time),
    )


def _tombstone(
    command: CloseCommand, admitted: CloseAdmitted, document: SessionDocument
) -> Tombstone:
    return Tombstone(
        deletion_id=command.deletion_id,
        namespace_id=command.namespace_id,
        session_id=command.session_id,
        endpoint_incarnation=command.incarnation,
        key_digest=command.key_digest,
        request_digest=command.request_digest,
        endpoint=endpoint_of(document),
        close_key=f"close_{command.deletion_id}",
        turn_ids=admitted.turn_ids,
        report_ids=admitted.report_ids,
        settled_turn_ids=admitted.settled_turn_ids,
        authority_digest=canonical_digest(document.canonical.model_dump(mode="json")),
        created_at=timestamp(datetime.now(UTC)),
    )


def _refusal(error: WorkflowUpdateFailedError) -> MusterError:
    cause = error.cause
    if isinstance(cause, ApplicationError) and cause.type:
        details = cause.details[0] if cause.details else {}
        return error_from_code(
            cause.type, cause.message, details if isinstance(details, dict) else {}
        )
    return TemporalUnavailable(f"the session's workflow didn't answer: {cause}")
