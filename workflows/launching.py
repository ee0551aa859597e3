"""Launch and first document of a creation, however long it takes to know what became of them.

Each attempt first looks for the launch under its key, so that it can't happen twice. While nobody
knows whether it happened, the runtime is looked at again and again, and an operator may decide.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from contextlib import suppress
from typing import Protocol

from temporalio import workflow
from temporalio.exceptions import ActivityError, ApplicationError
from temporalio.workflow import ActivityHandle

with workflow.unsafe.imports_passed_through():
    from muster.domain.contracts import (
        Activities,
        ClaimedCreation,
        CreationRecorded,
        Decision,
        MarkUncertain,
        Placement,
        RecordCreation,
    )
    from muster.domain.control import MusterStatus
    from muster.domain.creation import CreateAnswer, CreateCommand
    from muster.domain.errors import TerminalUncertain
    from muster.domain.runtime import Launched, LaunchRequest
    from muster.workflows import policies
    from muster.workflows.failures import ACTIVITY_FAILURES, as_failure
    from muster.workflows.uncertainty import (
        Uncertainty,
        can_become_known,
        evidence_of,
        is_uncertain,
    )


class Show(Protocol):
    """Tells the UI which step is under way."""

    def __call__(self, step: str, status: MusterStatus, *, reason: str | None = None) -> None: ...


class Launching:
    """The part of a creation that has an effect elsewhere.

    Args:
        command: The creation.
        placement: Where its runtime and its documents are.
        show: Called at each step.
    """

    def __init__(self, command: CreateCommand, placement: Placement, show: Show) -> None:
        self.uncertainty = Uncertainty()
        self._command = command
        self._placement = placement
        self._show = show

    async def answer(self, claimed: ClaimedCreation) -> CreateAnswer:
        """Launch, write the first document and return the creator's answer.

        Raises the coded refusal; TerminalUncertain when an operator has given the creation up.
        """
        adopted = False
        launching: Awaitable[Launched | None] = self._launch(claimed.launch)
        while True:
            try:
                return await self._record(claimed, await launching, adopted)
            except ACTIVITY_FAILURES as error:
                if not is_uncertain(error):
                    raise
                found, decision = await self._settle(claimed.launch, error)
                evidence = evidence_of(error)
            adopted = decision == Decision.ADOPT
            if decision == Decision.ABANDON:
                raise as_failure(TerminalUncertain(f"abandoned by an operator: {evidence}"))
            if found is not None:
                launching = found
            else:
                launching = (self._adopt if adopted else self._launch)(claimed.launch)

    async def _settle(
        self, launch: LaunchRequest | None, error: ActivityError | ApplicationError
    ) -> tuple[ActivityHandle[Launched] | None, Decision | None]:
        """Wait until looking again has told, or an operator has decided."""
        evidence = evidence_of(error)
        await self._mark(evidence)
        deciding = asyncio.create_task(self.uncertainty.decision(evidence))
        if launch is None or not can_become_known(error):
            return None, await deciding
        looking = self._look(launch)
        await workflow.wait([deciding, looking], return_when=asyncio.FIRST_COMPLETED)
        if not self.uncertainty.is_decided:
            deciding.cancel()
            self.uncertainty.settled()
            return looking, None
        # A look that goes on for a moment does no harm: the launch's folder admits one at a time,
        # and a creation that is given up takes away the key that a launch begins with.
        looking.cancel()
        with suppress(*ACTIVITY_FAILURES, asyncio.CancelledError):
            await looking
        return None, await deciding

    async def _mark(self, evidence: str) -> None:
        self._show("waits for `muster session resolve`", MusterStatus.UNCERTAIN, reason=evidence)
        with suppress(*ACTIVITY_FAILURES):
            await workflow.execute_local_activity(
                Activities.MARK_CREATION_UNCERTAIN,
                MarkUncertain(
                    namespace_id=self._command.namespace_id,
                    session_id=self._command.session_id,
                    key_digest=self._command.key_digest,
                    reason=evidence,
                ),
                summary="show that it is uncertain",
                **policies.COMMIT,
            )

    async def _launch(self, launch: LaunchRequest | None) -> Launched | None:
        if launch is None:
            return None
        self._show("launching", MusterStatus.WORKING)
        launched: Launched = await workflow.execute_activity(
            Activities.LAUNCH,
            launch,
            result_type=Launched,
            task_queue=self._placement.runtime_queue,
            summary=f"launch {launch.runtime} in {launch.cwd}",
            **policies.LAUNCH,
        )
        return launched

    def _look(self, launch: LaunchRequest) -> ActivityHandle[Launched]:
        looking: ActivityHandle[Launched] = workflow.start_activity(
            Activities.LAUNCH,
            launch,
            result_type=Launched,
            task_queue=self._placement.runtime_queue,
            summary="look again; launch only what was provably not launched",
            **policies.LOOK_AGAIN,
        )
        return looking

    async def _adopt(self, launch: LaunchRequest | None) -> Launched | None:
        if launch is None:
            return None
        self._show("adopting", MusterStatus.WORKING)
        launched: Launched = await workflow.execute_activity(
            Activities.ADOPT_LAUNCH,
            launch,
            result_type=Launched,
            task_queue=self._placement.runtime_queue,
            summary="adopt what the runtime shows",
            **policies.ADOPT,
        )
        return launched

    async def _record(
        self, claimed: ClaimedCreation, launched: Launched | None, adopted: bool
    ) -> CreateAnswer:
        recorded: CreationRecorded = await workflow.execute_local_activity(
            Activities.RECORD_CREATION,
            RecordCreation(
                command=self._command,
                receipt=claimed.receipt,
                launched=launched,
                runtime_queue=self._placement.runtime_queue,
                accept_verifier=adopted,
            ),
            result_type=CreationRecorded,
            summary="write the first document",
            **policies.RECORD,
        )
        return recorded.answer
