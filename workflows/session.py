"""`Session`: the one writer of a session's document.

Commands arrive as updates and answer once their change is on disk. Beside them run loops: turns,
publication, and questions. The workflow's own state is the control state that each commit answers
with; nothing else is carried over when it continues as new.
"""

from __future__ import annotations

import asyncio

from temporalio import workflow

with workflow.unsafe.imports_passed_through():
    from muster.domain.changes import (
        AcceptPrompt,
        AdmitClose,
        AnswerClaimed,
        CancelTurn,
        ClaimAnswer,
        CloseAdmitted,
        FileReport,
        OperationDone,
        PromptAccepted,
        RequestStop,
    )
    from muster.domain.contracts import SessionInput, SessionRef, Updates, Workflows
    from muster.domain.control import ControlState, MusterStatus
    from muster.domain.errors import LimitExceeded, TemporalUnavailable
    from muster.domain.turn_model import INLINE_CONTENT_BYTES
    from muster.workflows.attributes import STATUS
    from muster.workflows.failures import as_failure
    from muster.workflows.publication import Publication
    from muster.workflows.questions import QuestionDesk
    from muster.workflows.turns import TurnRunner
    from muster.workflows.writer import DocumentWriter


@workflow.defn(name=Workflows.SESSION)
class Session:
    """Prompts, turns, questions, operations and events of one incarnation of a session."""

    @workflow.init
    def __init__(self, given: SessionInput) -> None:
        self._given = given
        self._writer = DocumentWriter(given)
        self._turns = TurnRunner(self._writer)
        self._questions = QuestionDesk(self._writer)
        self._publication = Publication(self._writer)
        self._drained = False
        self._ended = False

    @workflow.run
    async def run(self, given: SessionInput) -> None:
        """Serve the session until it is closed and its runtime has ended."""
        await self._writer.open()
        if given.initial_prompt is not None:
            await self._writer.record(given.initial_prompt)
        loops = [
            asyncio.create_task(loop)
            for loop in (
                self._turns.loop(),
                self._publication.loop(),
                self._questions.settle_orphans(),
                self._questions.keep_policy(),
            )
        ]
        await workflow.wait_condition(
            lambda: self._drained or self._is_long() or any(loop.done() for loop in loops)
        )
        self._writer.leaving = True
        await asyncio.gather(*loops)
        if self._drained:
            await workflow.wait_condition(lambda: not self._questions.busy)
            self._ended = True
        await workflow.wait_condition(workflow.all_handlers_finished)
        if self._drained:
            workflow.upsert_search_attributes([STATUS.value_set(MusterStatus.DONE.value)])
            return
        workflow.continue_as_new(
            given.model_copy(update={"control": self._writer.control, "initial_prompt": None})
        )

    def _is_long(self) -> bool:
        """True when the history should be left behind: between turns early, in a turn late."""
        info = workflow.info()
        length, limit = info.get_current_history_length(), self._given.continue_after_events
        due = info.is_continue_as_new_suggested() or length >= limit
        between_turns = self._writer.active is None and not self._questions.busy
        return (
            due and not self._writer.control.closing and (between_turns or length >= limit * 5 // 4)
        )

    @workflow.update(name=Updates.PROMPT)
    async def prompt(self, change: AcceptPrompt) -> PromptAccepted:
        """Accept a prompt; it is on disk when this answers."""
        accepted = await self._writer.commit(change)
        assert isinstance(accepted, PromptAccepted)
        return accepted

    @prompt.validator
    def _fits_inline(self, change: AcceptPrompt) -> None:
        length = len(change.content.text.encode())
        if length > INLINE_CONTENT_BYTES:
            raise as_failure(
                LimitExceeded(
                    f"a prompt of {length} bytes doesn't travel inline, the limit is "
                    f"{INLINE_CONTENT_BYTES}; store it first and send its sha256 and beginning",
                    limit=INLINE_CONTENT_BYTES,
                )
            )

    @workflow.update(name=Updates.ANSWER)
    async def answer(self, change: ClaimAnswer) -> AnswerClaimed:
        """Answer a question; this answers once the runtime has said what it made of it."""
        return await self._questions.answer(change)

    @workflow.update(name=Updates.STOP)
    async def stop(self, change: RequestStop) -> OperationDone:
        """Have the running turn cancelled; the answer comes before the turn has settled."""
        return await self._operate(change)

    @workflow.update(name=Updates.CANCEL_TURN)
    async def cancel_turn(self, change: CancelTurn) -> OperationDone:
        """Take a queued turn out of the queue."""
        return await self._operate(change)

    @workflow.update(name=Updates.REPORT)
    async def report(self, change: FileReport) -> OperationDone:
        """File a report."""
        return await self._operate(change)

    async def _operate(self, change: RequestStop | CancelTurn | FileReport) -> OperationDone:
        done = await self._writer.commit(change)
        assert isinstance(done, OperationDone)
        return done

    @workflow.update(name=Updates.ADMIT_CLOSE)
    async def admit_close(self, change: AdmitClose) -> CloseAdmitted:
        """Admit a close; from here on the session takes no command."""
        admitted = await self._writer.commit(change)
        assert isinstance(admitted, CloseAdmitted)
        return admitted

    @workflow.update(name=Updates.DRAIN)
    async def drain(self, ref: SessionRef) -> bool:
        """Answer once a closing session's workflow writes nothing any more; it ends then."""
        await workflow.wait_condition(lambda: self._writer.leaving or self._closing)
        if self._writer.leaving and not self._drained:
            raise as_failure(TemporalUnavailable("the session continues as new; ask the next run"))
        self._drained = True
        await workflow.wait_condition(lambda: self._ended)
        return True

    @property
    def _closing(self) -> bool:
        return self._writer.opened and self._writer.control.closing

    @workflow.signal(name=Updates.NUDGE)
    async def nudge(self) -> None:
        """Read the document again: somebody saw work in it that isn't done here."""
        await self._writer.reread()

    @workflow.query(name=Updates.CONTROL)
    def control(self) -> ControlState | None:
        """What the workflow knows of its document; None before it has read it."""
        return self._writer.control if self._writer.opened else None
