"""Holds a workflow open until somebody says what to do about what nobody knows."""

from __future__ import annotations

from temporalio import workflow
from temporalio.exceptions import ActivityError, ApplicationError

with workflow.unsafe.imports_passed_through():
    from muster.domain.contracts import Decision, ResolveCommand, Resolved
    from muster.domain.errors import ResourceGone, TerminalUncertain
    from muster.workflows.failures import as_failure


def is_uncertain(error: ActivityError | ApplicationError) -> bool:
    """True unless the failure says for certain what did not happen."""
    cause = _cause_of(error)
    if not isinstance(cause, ApplicationError):
        return True
    return not cause.non_retryable or cause.type == TerminalUncertain.code


def can_become_known(error: ActivityError | ApplicationError) -> bool:
    """True if looking again may tell; what was said for certain needs a person's word."""
    cause = _cause_of(error)
    return not isinstance(cause, ApplicationError) or cause.type != TerminalUncertain.code


def evidence_of(error: ActivityError | ApplicationError) -> str:
    """What is known, for a person."""
    cause = _cause_of(error)
    if isinstance(cause, ApplicationError):
        return cause.message
    return f"no answer in time: {cause or error}"


def _cause_of(error: ActivityError | ApplicationError) -> BaseException | None:
    return error.cause if isinstance(error, ActivityError) else error


class Uncertainty:
    """The question to an operator, while there is one."""

    def __init__(self) -> None:
        self._evidence: str | None = None
        self._taken: ResolveCommand | None = None

    async def decision(self, evidence: str) -> Decision:
        """Wait for an operator's decision."""
        self._evidence, self._taken = evidence, None
        await workflow.wait_condition(lambda: self._taken is not None)
        assert self._taken is not None
        self._evidence = None
        return self._taken.decision

    @property
    def is_decided(self) -> bool:
        """True once somebody has said what to do about the last question."""
        return self._taken is not None

    def settled(self) -> None:
        """It has become known: there is nothing to decide any more."""
        self._evidence = None

    def check(self) -> None:
        """Raises the coded refusal if nothing is uncertain."""
        if self._evidence is None or self._taken is not None:
            raise as_failure(
                ResourceGone("nothing is uncertain here any more; `muster session show` tells")
            )

    def resolve(self, command: ResolveCommand) -> Resolved:
        """Take the decision."""
        self._taken = command
        return Resolved(decision=command.decision, evidence=self._evidence or "")
