"""`CreateSession`: a session on an agent runtime, exactly once for its creator's key."""

from __future__ import annotations

from contextlib import suppress

from temporalio import workflow
from temporalio.common import WorkflowIDReusePolicy
from temporalio.exceptions import ApplicationError, WorkflowAlreadyStartedError
from temporalio.workflow import ParentClosePolicy

with workflow.unsafe.imports_passed_through():
    from muster.domain.contracts import (
        Activities,
        ClaimedCreation,
        CompleteCreation,
        CreateInput,
        FailCreation,
        ResolveCommand,
        Resolved,
        SessionInput,
        SessionRef,
        Updates,
        Workflows,
    )
    from muster.domain.control import MusterStatus
    from muster.domain.creation import (
        CreateAnswer,
        CreateCommand,
        CreateSpec,
        CreationFailure,
        initial_prompt_change,
        require_same_creation,
    )
    from muster.domain.errors import MusterError
    from muster.domain.identifiers import session_workflow_id
    from muster.domain.runtime import Closed, LaunchRequest
    from muster.workflows import policies
    from muster.workflows.attributes import details_table, session_attributes, show_status
    from muster.workflows.failures import ACTIVITY_FAILURES, as_failure, refusal_of
    from muster.workflows.launching import Launching
    from muster.workflows.outcome import Outcome

EARLIER_SESSION_SECONDS = 0.5


@workflow.defn(name=Workflows.CREATE_SESSION)
class CreateSession:
    """Claim, launch, first document, receipt, session workflow; each step is repeatable."""

    @workflow.init
    def __init__(self, given: CreateInput) -> None:
        self._command = given.command
        self._placement = given.placement
        self._outcome = Outcome[CreateAnswer]()
        self._launching = Launching(given.command, given.placement, self._show)
        self._claimed = False

    @workflow.run
    async def run(self, given: CreateInput) -> CreateAnswer:
        """Create the session and return its creator's answer.

        Fails with the coded refusal; every caller with the claimed request hears the same.
        """
        await self._outcome.take(self._create())
        refusal = self._outcome.refusal or self._conflict(given.command)
        if refusal is not None:
            self._show("failed", MusterStatus.FAILED, reason=refusal.message)
            raise refusal
        return self._outcome.result()

    @workflow.update(name=Updates.CREATE)
    async def create(self, command: CreateCommand) -> CreateAnswer:
        """The creator's answer, as soon as there is one."""
        await workflow.wait_condition(lambda: self._claimed or self._outcome.known)
        conflict = self._conflict(command)
        if conflict is not None:
            raise conflict
        return await self._outcome.heard()

    @create.validator
    def _same_request(self, command: CreateCommand) -> None:
        if self._claimed:
            conflict = self._conflict(command)
            if conflict is not None:
                raise conflict

    def _conflict(self, command: CreateCommand) -> ApplicationError | None:
        """The refusal of a request that isn't the claimed one; until there is a claim, of none.

        Whoever starts a run need not be who claimed the key: an earlier run may have been.
        """
        if not self._claimed:
            return None
        try:
            require_same_creation(self._command.spec, command.spec)
        except MusterError as error:
            return as_failure(error)
        return None

    @workflow.update(name=Updates.RESOLVE)
    async def resolve(self, command: ResolveCommand) -> Resolved:
        """Take an operator's decision on what nobody knows."""
        return self._launching.uncertainty.resolve(command)

    @resolve.validator
    def _is_uncertain(self, command: ResolveCommand) -> None:
        self._launching.uncertainty.check()

    async def _create(self) -> CreateAnswer:
        self._show("claiming", MusterStatus.WORKING)
        claimed: ClaimedCreation = await workflow.execute_local_activity(
            Activities.CLAIM_CREATION,
            self._command,
            result_type=ClaimedCreation,
            summary="claim the key",
            **policies.RECORD,
        )
        receipt = claimed.receipt
        self._claim(receipt.request)
        if receipt.failure is not None:
            raise await self._given_up(claimed, receipt.failure)
        if receipt.answer is not None and not claimed.recorded:
            return receipt.answer  # it was closed since
        answer = receipt.answer or await self._launch_and_record(claimed)
        await self._start_session(answer, resumed=claimed.recorded)
        self._show("created", MusterStatus.DONE, answer=answer)
        return answer

    def _claim(self, request: CreateSpec) -> None:
        """From here on this run is for what was claimed under the key."""
        self._command = self._command.model_copy(update={"spec": request})
        self._launching = Launching(self._command, self._placement, self._show)
        self._claimed = True

    async def _launch_and_record(self, claimed: ClaimedCreation) -> CreateAnswer:
        try:
            return await self._launching.answer(claimed)
        except ACTIVITY_FAILURES as error:
            refusal = refusal_of(error)
            if refusal is None:
                raise
            failure = _failure_of(refusal)
        raise await self._given_up(claimed, failure)

    async def _given_up(
        self, claimed: ClaimedCreation, failure: CreationFailure
    ) -> ApplicationError:
        """Fail for good under this key, and leave nothing that was launched; returns the error."""
        if claimed.receipt.completed_at is None:
            self._show("ending what was launched", MusterStatus.CLOSING, reason=failure.message)
            await workflow.execute_local_activity(
                Activities.FAIL_CREATION,
                FailCreation(command=self._command, failure=failure),
                summary="file the failure",
                **policies.RECORD,
            )
            await self._end_launch(claimed.launch)
            await self._complete()
        return ApplicationError(
            failure.message, failure.details, type=failure.code, non_retryable=True
        )

    async def _end_launch(self, launch: LaunchRequest | None) -> None:
        if launch is None:
            return
        # What the runtime says isn't this creation's is not this creation's to end.
        with suppress(*ACTIVITY_FAILURES):
            await workflow.execute_activity(
                Activities.END_LAUNCH,
                launch,
                result_type=Closed,
                task_queue=self._placement.runtime_queue,
                summary="end what was launched",
                **policies.CLOSE_STEP,
            )

    async def _complete(self) -> None:
        await workflow.execute_local_activity(
            Activities.COMPLETE_CREATION,
            CompleteCreation(command=self._command),
            summary="complete the receipt",
            **policies.RECORD,
        )

    async def _start_session(self, answer: CreateAnswer, *, resumed: bool) -> None:
        """Start the session's own workflow.

        Args:
            resumed: An earlier run of this creation may have started it.
        """
        while not await self._session_started(answer) and not resumed:
            # An earlier incarnation's has said its last word and is about to end.
            await workflow.sleep(EARLIER_SESSION_SECONDS, summary="let the earlier session end")

    async def _session_started(self, answer: CreateAnswer) -> bool:
        """False if a workflow of the session runs already."""
        ref = SessionRef(
            namespace_id=answer.namespace_id,
            session_id=answer.session_id,
            incarnation=answer.incarnation,
        )
        try:
            await workflow.start_child_workflow(
                Workflows.SESSION,
                SessionInput(
                    ref=ref,
                    placement=self._placement,
                    initial_prompt=initial_prompt_change(self._command),
                ),
                id=session_workflow_id(answer.namespace_id, answer.session_id),
                task_queue=self._placement.root_queue,
                task_timeout=policies.TASK_TIMEOUT,
                parent_close_policy=ParentClosePolicy.ABANDON,
                id_reuse_policy=WorkflowIDReusePolicy.ALLOW_DUPLICATE,
                priority=policies.PROMPT_PRIORITY,
                static_summary=f"session {self._command.spec.title or answer.session_id}",
                static_details=f"{self._command.spec.runtime} in {self._command.spec.cwd}",
                search_attributes=session_attributes(
                    answer.namespace_id,
                    answer.session_id,
                    MusterStatus.WAITING,
                    workflow.now(),
                ),
            )
        except WorkflowAlreadyStartedError:
            return False
        return True

    def _show(
        self,
        step: str,
        status: MusterStatus,
        *,
        answer: CreateAnswer | None = None,
        reason: str | None = None,
    ) -> None:
        """Keep the UI current; attributes change only where the status does."""
        workflow.set_current_details(
            details_table(
                {
                    "session": self._command.session_id,
                    "step": step,
                    "kind": self._command.spec.kind,
                    "working directory": self._command.spec.cwd,
                    "incarnation": answer.incarnation if answer else None,
                    "reason": reason,
                }
            )
        )
        show_status(self._command.namespace_id, self._command.session_id, status)


def _failure_of(refusal: ApplicationError) -> CreationFailure:
    details = refusal.details[0] if refusal.details else {}
    return CreationFailure(
        code=refusal.type or MusterError.code,
        message=refusal.message,
        details=details if isinstance(details, dict) else {},
    )
