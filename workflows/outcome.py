"""What a workflow that runs once comes to: an answer or a refusal, the same for all who ask."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Generic, TypeVar

from temporalio import workflow
from temporalio.exceptions import ApplicationError

with workflow.unsafe.imports_passed_through():
    from muster.workflows.failures import ACTIVITY_FAILURES, refusal_of

AnswerT = TypeVar("AnswerT")


class Outcome(Generic[AnswerT]):
    """The answer or the refusal, once there is one."""

    def __init__(self) -> None:
        self._answer: AnswerT | None = None
        self.refusal: ApplicationError | None = None

    @property
    def known(self) -> bool:
        """Whether there is an answer or a refusal."""
        return self._answer is not None or self.refusal is not None

    async def take(self, work: Awaitable[AnswerT]) -> None:
        """Await the work, keep what it comes to, and let every caller hear it.

        Raises what isn't a coded refusal.
        """
        try:
            self._answer = await work
        except ACTIVITY_FAILURES as error:
            self.refusal = refusal_of(error)
            if self.refusal is None:
                raise
        await workflow.wait_condition(workflow.all_handlers_finished)

    async def heard(self) -> AnswerT:
        """The answer as soon as it is known; raises the refusal."""
        await workflow.wait_condition(lambda: self.known)
        return self.result()

    def result(self) -> AnswerT:
        """The answer; raises the refusal."""
        if self.refusal is not None:
            raise self.refusal
        assert self._answer is not None
        return self._answer
