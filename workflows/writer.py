"""The session workflow's hold on its document: one commit at a time, at a known revision."""

from __future__ import annotations

import asyncio

from temporalio import workflow
from temporalio.exceptions import ApplicationError

with workflow.unsafe.imports_passed_through():
    from muster.domain.changes import Change, Outcome, RecordDelivery
    from muster.domain.contract import parse_time, timestamp
    from muster.domain.contracts import Activities, CommitRequest, CommitResult, SessionInput
    from muster.domain.control import ActiveTurn, ControlState
    from muster.domain.turn_model import TurnStatus
    from muster.workflows import policies
    from muster.workflows.attributes import ACTIVITY_AT, STATUS, details_table
    from muster.workflows.failures import ACTIVITY_FAILURES, refusal_of


class DocumentWriter:
    """Commits changes and keeps the control state that follows from the document on disk.

    Args:
        given: The session workflow's input.
    """

    def __init__(self, given: SessionInput) -> None:
        self.ref = given.ref
        self._placement = given.placement
        self.leaving = False
        """Set when this run ends: the loops finish what they are doing and return."""
        self.published = 0
        """The revision up to which readers and the journal are current."""
        self.delivered: RecordDelivery | None = None
        """What the runtime has and isn't on record yet."""
        self._known = given.control
        self._lock = asyncio.Lock()
        self._shown = workflow.info().typed_search_attributes.get(STATUS)

    @property
    def opened(self) -> bool:
        """Whether the document has been read."""
        return self._known is not None

    @property
    def control(self) -> ControlState:
        """The control state of the last known revision.

        Raises ApplicationError (`not_ready`) before the document was read.
        """
        if self._known is None:
            raise ApplicationError("the session's document isn't read yet", type="not_ready")
        return self._known

    @property
    def runtime_queue(self) -> str:
        """The queue of the host that owns the agent."""
        return self.control.endpoint.runtime_queue or self._placement.runtime_queue

    @property
    def active(self) -> ActiveTurn | None:
        """The turn that runs."""
        return self.control.active

    def is_active(self, turn_id: str) -> bool:
        """Whether this turn is the one that runs."""
        return self.active is not None and self.active.turn_id == turn_id

    async def open(self) -> None:
        """Read the document, or show what was carried over from an earlier run."""
        if self._known is None:
            await self.reread()
        else:
            self.show()

    async def reread(self) -> None:
        """Take the document's word for where things are."""
        async with self._lock:
            found: ControlState = await workflow.execute_local_activity(
                Activities.OPEN_SESSION,
                self.ref,
                result_type=ControlState,
                summary="read the document",
                **policies.RECORD,
            )
            self._take(found)
        self.show()

    async def commit(
        self, change: Change, policy: policies.LocalPolicy = policies.COMMIT
    ) -> Outcome:
        """Apply a change at the known revision; where the document is ahead, at its own.

        Raises the coded refusal as ApplicationError; nothing is changed then.
        """
        await workflow.wait_condition(lambda: self.opened)
        async with self._lock:
            while True:
                result = await self._try_commit(change, policy)
                self._take(result.control)
                self.show()
                if result.outcome is not None:
                    return result.outcome

    async def record(self, change: Change) -> Outcome:
        """Commit what happened: it must get on disk, however long that takes."""
        return await self.commit(change, policies.RECORD)

    async def _try_commit(self, change: Change, policy: policies.LocalPolicy) -> CommitResult:
        request = CommitRequest(
            ref=self.ref,
            expected_revision=self.control.revision,
            delivered=self.delivered.turn_id if self.delivered else None,
            change=change,
            at=timestamp(workflow.now()),
        )
        try:
            result: CommitResult = await workflow.execute_local_activity(
                Activities.COMMIT_SESSION,
                request,
                result_type=CommitResult,
                summary=change.type.replace("_", " "),
                **policy,
            )
        except ACTIVITY_FAILURES as error:
            raise refusal_of(error) or error from error
        return result

    async def publish(self) -> bool:
        """Try once to publish what is owed; it commits the acknowledgement, so it takes its turn.

        Returns False if it has to be tried again.
        """
        async with self._lock:
            try:
                found: ControlState = await workflow.execute_local_activity(
                    Activities.PUBLISH_EVENTS,
                    self.ref,
                    result_type=ControlState,
                    summary="publish events",
                    **policies.PUBLISH,
                )
            except ACTIVITY_FAILURES as error:
                workflow.logger.warning("events aren't published yet: %s", error.cause or error)
                return False
            self._take(found)
            if self.control.unacknowledged == 0:
                self.published = self.control.revision
        self.show()
        return True

    def note(self, delivered: RecordDelivery) -> None:
        """The runtime has a turn's prompt, which goes on record with what follows."""
        self.delivered = delivered
        self._take(self.control)
        self.show()

    def _take(self, control: ControlState) -> None:
        """The document's word for where things are, and of a delivery what isn't in it yet."""
        active, delivered = control.active, self.delivered
        self.delivered, self._known = None, control
        if active is None or delivered is None or active.turn_id != delivered.turn_id:
            return
        if not active.acknowledged:
            running = {
                "status": TurnStatus.ACTIVE,
                "acknowledged": True,
                "runtime_turn_id": delivered.receipt.runtime_turn_id,
            }
            self._known = control.model_copy(update={"active": active.model_copy(update=running)})
            self.delivered = delivered

    def show(self) -> None:
        """Keep the UI current; the attributes change only when the status does."""
        control = self.control
        workflow.set_current_details(_details(control))
        if self._shown != control.status.value:
            self._shown = control.status.value
            workflow.upsert_search_attributes(
                [
                    STATUS.value_set(control.status.value),
                    ACTIVITY_AT.value_set(parse_time(control.activity_at)),
                ]
            )


def _details(control: ControlState) -> str:
    active, last = control.active, control.last_turn
    return details_table(
        {
            "status": control.status.value,
            "turn": f"{active.turn_id} ({active.status.value})" if active else None,
            "queued": control.queued or None,
            "questions": ", ".join(each.question_id for each in control.questions),
            "last turn": f"{last.turn_id} ({last.status.value})" if last else None,
            "turns": control.turns,
            "unpublished events": control.unacknowledged or None,
            "runtime": control.gone or control.endpoint.runtime.value,
            "incarnation": control.endpoint.incarnation,
            "revision": control.revision,
        }
    )
