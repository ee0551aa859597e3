"""Runs a session's turns one after the other: deliver, follow, record."""

from __future__ import annotations

import asyncio
from typing import TypeVar

from temporalio import workflow
from temporalio.exceptions import ActivityError

with workflow.unsafe.imports_passed_through():
    from muster.domain.changes import FailTurn, RecordDelivery, RecordEvents
    from muster.domain.contracts import Activities, DeliverTurn, FollowTurn
    from muster.domain.control import ActiveTurn
    from muster.domain.runtime import (
        DeliverReceipt,
        FollowRequest,
        FollowResult,
        InterruptRequest,
    )
    from muster.workflows import policies
    from muster.workflows.failures import refusal_of
    from muster.workflows.writer import DocumentWriter

T = TypeVar("T")


class TurnRunner:
    """Drives whichever turn the document says is active.

    Args:
        writer: The hold on the document.
    """

    def __init__(self, writer: DocumentWriter) -> None:
        self._writer = writer
        self._interrupted: str | None = None

    async def loop(self) -> None:
        """Run turns until this workflow run ends."""
        writer = self._writer
        while not writer.leaving:
            await workflow.wait_condition(lambda: writer.leaving or writer.active is not None)
            if writer.active is not None and not writer.leaving:
                await self._run(writer.active)

    async def _run(self, active: ActiveTurn) -> None:
        if not active.acknowledged:
            await self._deliver(active)
        while self._writer.is_active(active.turn_id) and not self._writer.leaving:
            await self._follow(active.turn_id)

    async def _deliver(self, active: ActiveTurn) -> None:
        """Hand the prompt over; a delivery that is repeated has the same receipt."""
        try:
            delivering: workflow.ActivityHandle[DeliverReceipt] = workflow.start_activity(
                Activities.DELIVER,
                DeliverTurn(
                    ref=self._writer.ref,
                    endpoint=self._writer.control.endpoint,
                    turn_id=active.turn_id,
                    key=active.delivery_key,
                ),
                result_type=DeliverReceipt,
                task_queue=self._writer.runtime_queue,
                summary=f"deliver {active.turn_id}",
                **policies.RUNTIME_COMMAND,
            )
            receipt = await self._while_active(active.turn_id, delivering)
        except ActivityError as error:
            await self._writer.record(_not_delivered(active, error))
        else:
            if receipt is not None:
                self._writer.note(RecordDelivery(turn_id=active.turn_id, receipt=receipt))

    async def _while_active(self, turn_id: str, command: workflow.ActivityHandle[T]) -> T | None:
        """A command's result; None when its turn has ended before, as a forced close ends it.

        Without that a runtime that can't be reached would hold up the close for ever.
        """
        await workflow.wait_condition(lambda: command.done() or not self._writer.is_active(turn_id))
        if command.done():
            return await command
        command.cancel()
        await asyncio.wait([command])
        return None

    async def _follow(self, turn_id: str) -> None:
        """Wait for what the runtime says next, passing on an interrupt meanwhile."""
        writer = self._writer
        following = workflow.start_activity(
            Activities.FOLLOW,
            FollowTurn(
                ref=writer.ref,
                request=FollowRequest(
                    endpoint=writer.control.endpoint, after=writer.control.cursor
                ),
                delivered=writer.delivered,
            ),
            result_type=FollowResult,
            task_queue=writer.runtime_queue,
            summary=f"follow {turn_id}",
            **policies.FOLLOW,
        )
        while not following.done():
            await workflow.wait_condition(lambda: following.done() or self._has_other_work(turn_id))
            if following.done():
                break
            if self._interrupt_due() is None:
                following.cancel()
                await asyncio.wait([following])
                return
            await self._interrupt()
        heard = await following
        await writer.record(
            RecordEvents(
                events=heard.events,
                rejected=heard.rejected,
                cursor=heard.cursor,
                gone=heard.gone,
                delivered=writer.delivered,
            )
        )

    def _has_other_work(self, turn_id: str) -> bool:
        moved_on = self._writer.leaving or not self._writer.is_active(turn_id)
        return moved_on or self._interrupt_due() is not None

    def _interrupt_due(self) -> str | None:
        active = self._writer.active
        key = active.interrupt_key if active else None
        return key if key != self._interrupted else None

    async def _interrupt(self) -> None:
        active = self._writer.active
        if active is None or active.interrupt_key is None:
            return
        self._interrupted = active.interrupt_key
        interrupting: workflow.ActivityHandle[None] = workflow.start_activity(
            Activities.INTERRUPT,
            InterruptRequest(
                endpoint=self._writer.control.endpoint,
                key=active.interrupt_key,
                runtime_turn_id=active.runtime_turn_id,
            ),
            task_queue=self._writer.runtime_queue,
            summary=f"cancel {active.turn_id}",
            **policies.RUNTIME_COMMAND,
        )
        await self._while_active(active.turn_id, interrupting)


def _not_delivered(active: ActiveTurn, error: ActivityError) -> FailTurn:
    refusal = refusal_of(error)
    if refusal is None:
        raise error
    return FailTurn(
        turn_id=active.turn_id,
        code=refusal.type or "internal",
        message=refusal.message,
        runtime_gone=refusal.type == "runtime_gone",
    )
