"""The one protocol that every agent runtime adapter implements."""

from __future__ import annotations

from typing import Protocol

from muster.domain.runtime import (
    AnswerCommand,
    AnswerReceipt,
    Closed,
    CloseRequest,
    DeliverReceipt,
    DeliverRequest,
    FollowRequest,
    FollowResult,
    InterruptRequest,
    Launched,
    LaunchFound,
    LaunchRequest,
)


class AgentRuntime(Protocol):
    """Commands to an agent runtime; each is repeatable by its key.

    Every method raises `RuntimeUnavailable` when the runtime can't be reached or refused before
    anything began (try again), and `RuntimeGone` when this incarnation has ended. Any other error
    means that the outcome is unknown: look it up before trying again.
    """

    async def find_launch(self, request: LaunchRequest) -> LaunchFound:
        """What exists under the request's remote creation key."""

    async def launch(self, request: LaunchRequest) -> Launched:
        """Start the agent, or adopt the one that this remote creation key already started."""

    async def deliver(self, request: DeliverRequest) -> DeliverReceipt:
        """Hand a prompt over and return the runtime's receipt."""

    async def follow(self, request: FollowRequest) -> FollowResult:
        """Events after the cursor; returns empty when none came within the wait."""

    async def answer(self, request: AnswerCommand) -> AnswerReceipt:
        """Answer a gate; the first answer wins, a repeated key hears its own receipt."""

    async def interrupt(self, request: InterruptRequest) -> None:
        """Cancel the running turn; it still ends with its own `turn.ended`."""

    async def close(self, request: CloseRequest) -> Closed:
        """End the agent and everything it started."""
