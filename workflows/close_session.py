"""`CloseSession`: end a session without losing an event, once for each incarnation."""

from __future__ import annotations

from contextlib import suppress

from temporalio import workflow

with workflow.unsafe.imports_passed_through():
    from muster.domain.closing import CloseAnswer, CloseCommand, Tombstone
    from muster.domain.contracts import (
        Activities,
        CloseInput,
        Decision,
        MarkUncertain,
        RemoveSession,
        ResolveCommand,
        Resolved,
        SessionRef,
        Updates,
        Workflows,
    )
    from muster.domain.control import MusterStatus
    from muster.domain.errors import IdempotencyConflict
    from muster.domain.runtime import Closed, CloseRequest
    from muster.workflows import policies
    from muster.workflows.attributes import details_table, show_status
    from muster.workflows.failures import ACTIVITY_FAILURES, as_failure
    from muster.workflows.outcome import Outcome
    from muster.workflows.uncertainty import Uncertainty, evidence_of, is_uncertain


@workflow.defn(name=Workflows.CLOSE_SESSION)
class CloseSession:
    """Admission, runtime close, drain of events, removal, tombstone; each step is repeatable."""

    @workflow.init
    def __init__(self, given: CloseInput) -> None:
        self._command = given.command
        self._placement = given.placement
        self._outcome = Outcome[CloseAnswer]()
        self._uncertainty = Uncertainty()
        self._abandoned = False

    @workflow.run
    async def run(self, given: CloseInput) -> CloseAnswer:
        """Close the session and return its closer's answer, or fail with the coded refusal."""
        await self._outcome.take(self._close())
        if self._outcome.refusal is not None:
            self._show("refused", MusterStatus.FAILED, self._outcome.refusal.message)
        return self._outcome.result()

    @workflow.update(name=Updates.CLOSE)
    async def close(self, command: CloseCommand) -> CloseAnswer:
        """The closer's answer, as soon as there is one."""
        return await self._outcome.heard()

    @close.validator
    def _same_request(self, command: CloseCommand) -> None:
        ours = (self._command.key_digest, self._command.request_digest)
        if (command.key_digest, command.request_digest) != ours:
            raise as_failure(
                IdempotencyConflict(
                    f"session {command.session_id} is being closed under another key or with "
                    "other options; wait for that close",
                    deletion_id=command.deletion_id,
                )
            )

    @workflow.update(name=Updates.RESOLVE)
    async def resolve(self, command: ResolveCommand) -> Resolved:
        """Take an operator's decision.

        Try again; or take the runtime for ended, since they saw that it has (adopt), or although
        nobody knows (abandon).
        """
        return self._uncertainty.resolve(command)

    @resolve.validator
    def _is_uncertain(self, command: ResolveCommand) -> None:
        self._uncertainty.check()

    async def _close(self) -> CloseAnswer:
        command = self._command
        self._show("asking the session", MusterStatus.CLOSING)
        tombstone: Tombstone = await workflow.execute_activity(
            Activities.REQUEST_CLOSE,
            command,
            result_type=Tombstone,
            summary="have the close admitted",
            **policies.ADMIT_CLOSE,
        )
        if tombstone.answer is not None:
            self._show("closed before", MusterStatus.DONE)
            return tombstone.answer
        closed = await self._end_runtime(tombstone)
        self._show("draining events", MusterStatus.CLOSING)
        last_seq: int = await workflow.execute_activity(
            Activities.FINISH_SESSION,
            SessionRef(
                namespace_id=command.namespace_id,
                session_id=command.session_id,
                incarnation=command.incarnation,
            ),
            result_type=int,
            summary="end the session's workflow, publish every event",
            **policies.CLOSE_STEP,
        )
        self._show("removing", MusterStatus.CLOSING)
        answer: CloseAnswer = await workflow.execute_activity(
            Activities.REMOVE_SESSION,
            RemoveSession(
                command=command,
                closed=closed,
                abandoned=self._abandoned,
                last_journal_seq=last_seq,
            ),
            result_type=CloseAnswer,
            summary="remove the session's folder, its document last",
            **policies.CLOSE_STEP,
        )
        self._show("closed", MusterStatus.DONE)
        return answer

    async def _end_runtime(self, tombstone: Tombstone) -> Closed:
        """End the runtime; while nobody knows whether it has ended, wait for a word."""
        while True:
            self._show("ending the runtime", MusterStatus.CLOSING)
            try:
                closed: Closed = await workflow.execute_activity(
                    Activities.CLOSE_RUNTIME,
                    CloseRequest(endpoint=tombstone.endpoint, key=tombstone.close_key),
                    result_type=Closed,
                    task_queue=tombstone.endpoint.runtime_queue or self._placement.runtime_queue,
                    summary=f"end {tombstone.endpoint.runtime}",
                    **policies.CLOSE_RUNTIME,
                )
            except ACTIVITY_FAILURES as error:
                if not is_uncertain(error):
                    raise
                decision = await self._ask(evidence_of(error))
                if decision != Decision.RETRY:
                    self._abandoned = decision == Decision.ABANDON
                    return Closed(already_gone=decision == Decision.ADOPT)
            else:
                return closed

    async def _ask(self, evidence: str) -> Decision:
        self._show("waits for `muster session resolve`", MusterStatus.UNCERTAIN, evidence)
        with suppress(*ACTIVITY_FAILURES):
            await workflow.execute_local_activity(
                Activities.MARK_CLOSE_UNCERTAIN,
                MarkUncertain(
                    namespace_id=self._command.namespace_id,
                    session_id=self._command.session_id,
                    incarnation=self._command.incarnation,
                    reason=evidence,
                ),
                summary="show that it is uncertain",
                **policies.COMMIT,
            )
        return await self._uncertainty.decision(evidence)

    def _show(self, step: str, status: MusterStatus, reason: str | None = None) -> None:
        command = self._command
        workflow.set_current_details(
            details_table(
                {
                    "session": command.session_id,
                    "incarnation": command.incarnation,
                    "step": step,
                    "forced": "yes" if command.force else None,
                    "history": "kept" if command.keep_history else None,
                    "reason": reason,
                }
            )
        )
        show_status(command.namespace_id, command.session_id, status)
