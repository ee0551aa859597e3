"""Keeps the journal and the readers' copy current, without holding up commands."""

from __future__ import annotations

from datetime import timedelta

from temporalio import workflow

with workflow.unsafe.imports_passed_through():
    from muster.workflows import policies
    from muster.workflows.writer import DocumentWriter


class Publication:
    """Publishes after each commit, and again later where that failed.

    Args:
        writer: The hold on the document.
    """

    def __init__(self, writer: DocumentWriter) -> None:
        self._writer = writer
        self._failures = 0
        self._close_lasts = False

    async def loop(self) -> None:
        """Publish until this workflow run ends."""
        writer = self._writer
        while True:
            await workflow.wait_condition(lambda: writer.leaving or self._due())
            if writer.leaving:
                return
            if writer.control.closing and not self._close_lasts:
                await self._let_close_end()
                continue
            if await writer.publish():
                self._failures = 0
            else:
                self._failures += 1
                await self._back_off()

    def _due(self) -> bool:
        writer = self._writer
        if not writer.opened or writer.control.revision == writer.published:
            return False
        # A prompt that starts at once is published together with its receipt, by the wait that
        # follows: a publication here would hold up the task that begins the wait.
        delivering = writer.active is not None and not writer.active.acknowledged
        return not delivering and writer.delivered is None

    async def _let_close_end(self) -> None:
        """Most closes end before this does, and publish what is left after this workflow's end.

        A publication here would hold up the closer's answer, and come twice.
        """
        self._close_lasts = not await self._leaves_within(
            policies.PUBLISH_CLOSING_AFTER, "before a close that lasts is published"
        )

    async def _back_off(self) -> None:
        steps = policies.PUBLISH_BACKOFF
        seconds = steps[min(self._failures, len(steps)) - 1]
        await self._leaves_within(timedelta(seconds=seconds), "before events are published again")

    async def _leaves_within(self, time: timedelta, summary: str) -> bool:
        try:
            await workflow.wait_condition(
                lambda: self._writer.leaving, timeout=time, timeout_summary=summary
            )
        except TimeoutError:
            return False
        return True
