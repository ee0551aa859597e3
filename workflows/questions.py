"""Carries answers to the runtime, and decides for nobody when a session's policy says so."""

from __future__ import annotations

import asyncio
from datetime import timedelta

from temporalio import workflow

with workflow.unsafe.imports_passed_through():
    from muster.domain.canonical import sha256_hex
    from muster.domain.changes import AnswerClaimed, ClaimAnswer, RequestStop, SettleAnswer
    from muster.domain.contract import parse_time
    from muster.domain.contracts import Activities
    from muster.domain.control import OpenQuestion
    from muster.domain.runtime import AnswerCommand, AnswerReceipt
    from muster.workflows import policies
    from muster.workflows.writer import DocumentWriter


class QuestionDesk:
    """Answers of callers, of updates that died, and of the policy.

    Args:
        writer: The hold on the document.
    """

    def __init__(self, writer: DocumentWriter) -> None:
        self._writer = writer
        self._under_way: dict[str, None] = {}

    @property
    def busy(self) -> bool:
        """Whether a caller's answer is under way."""
        return bool(self._under_way)

    async def answer(self, change: ClaimAnswer) -> AnswerClaimed:
        """Claim the question, tell the runtime, and say what it made of the answer."""
        self._under_way[change.key_digest] = None
        try:
            claimed = await self._writer.commit(change)
            assert isinstance(claimed, AnswerClaimed)
            return await self._tell(claimed) if claimed.status == "claimed" else claimed
        finally:
            self._under_way.pop(change.key_digest, None)

    async def _tell(self, claimed: AnswerClaimed) -> AnswerClaimed:
        telling: workflow.ActivityHandle[AnswerReceipt] = workflow.start_activity(
            Activities.ANSWER,
            AnswerCommand(
                endpoint=self._writer.control.endpoint,
                key=claimed.sdk_idempotency_key,
                gate_id=claimed.gate_id,
                option_id=claimed.option_id,
            ),
            result_type=AnswerReceipt,
            task_queue=self._writer.runtime_queue,
            summary=f"answer {claimed.question_id}",
            **policies.RUNTIME_COMMAND,
        )
        await workflow.wait_condition(lambda: telling.done() or self._settled_by_close(claimed))
        if not telling.done():
            telling.cancel()
            await asyncio.wait([telling])
            return claimed.model_copy(update={"status": "rejected"})
        receipt = await telling
        await self._writer.record(SettleAnswer(key_digest=claimed.key_digest, receipt=receipt))
        return claimed.model_copy(update={"status": receipt.status})

    def _settled_by_close(self, claimed: AnswerClaimed) -> bool:
        """True once a close has ended the turn: the runtime ends without this answer."""
        control = self._writer.control
        return control.closing and all(
            each.key_digest != claimed.key_digest for each in control.claims
        )

    async def settle_orphans(self) -> None:
        """Tell the runtime of claims on disk whose update died before it could."""
        writer = self._writer
        while not writer.leaving:
            await workflow.wait_condition(lambda: writer.leaving or self._orphan() is not None)
            claimed = self._orphan()
            if claimed is not None and not writer.leaving:
                await self._tell(claimed)

    def _orphan(self) -> AnswerClaimed | None:
        claims = self._writer.control.claims
        return next((each for each in claims if each.key_digest not in self._under_way), None)

    async def keep_policy(self) -> None:
        """Decide for a question that nobody answered in the session's time."""
        writer = self._writer
        while not writer.leaving:
            await workflow.wait_condition(lambda: writer.leaving or self._timed() is not None)
            question = self._timed()
            if question is not None and await self._times_out(question):
                await self._decide(question)
                await self._gone(question)

    def _timed(self) -> OpenQuestion | None:
        control = self._writer.control
        policy = control.policy
        if policy.question_on_timeout == "wait" or policy.question_timeout_seconds is None:
            return None
        return control.questions[0] if control.questions else None

    async def _times_out(self, question: OpenQuestion) -> bool:
        writer = self._writer
        limit = timedelta(seconds=writer.control.policy.question_timeout_seconds or 0)
        remaining = parse_time(question.opened_at) + limit - workflow.now()
        if remaining <= timedelta(0):
            return True
        try:
            await workflow.wait_condition(
                lambda: writer.leaving or question not in writer.control.questions,
                timeout=remaining,
                timeout_summary=f"question {question.question_id} times out",
            )
        except TimeoutError:
            return True
        return False

    async def _gone(self, question: OpenQuestion) -> None:
        """Deciding once is enough: the runtime still has to end what the question stopped."""
        writer = self._writer
        await workflow.wait_condition(
            lambda: writer.leaving or question not in writer.control.questions
        )

    async def _decide(self, question: OpenQuestion) -> None:
        digest = sha256_hex(f"question_timeout:{question.question_id}")
        if self._writer.control.policy.question_on_timeout == "deny":
            await self.answer(
                ClaimAnswer(
                    key_digest=digest,
                    request_digest=digest,
                    question_id=question.question_id,
                    option_id=question.reject_option_id,
                    source="policy",
                )
            )
        else:
            await self._writer.record(
                RequestStop(
                    key_digest=digest,
                    request_digest=digest,
                    keep_queue=True,
                    turn_id=question.turn_id,
                    reason="question_timeout",
                )
            )
