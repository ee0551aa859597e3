"""The table of kills: in which situation, at which point, and what the agent must have seen.

A point is a name of `FAULT_POINTS`, with `:n` for the n-th passage after the request. Counts are
of the lines that agents leave: one for each start of an agent, one for each start of a script, and
`… went on` for a script that wasn't cancelled.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass

from tests.faults.harness import AGENT, PATIENCE_SECONDS, System
from tests.faults.oracles import check, first_answer
from tests.faults.situations import (
    AbortAndPrompt,
    Answer,
    Ask,
    Close,
    Create,
    FollowUp,
    Lasting,
    Prompt,
    Reject,
    Situation,
    Stop,
)


@dataclass(frozen=True)
class Row:
    """One kill."""

    situation: type[Situation]
    point: str
    agent: Mapping[str, int]
    """How often each line was left at the end."""

    def __str__(self) -> str:
        return f"{self.situation.__name__}-{self.point}"

    async def run(self, system: System) -> None:
        """Kill the worker there while the request is on its way; another one goes on."""
        worker = await system.start_worker()
        situation = self.situation(system)
        await situation.prepare()
        await worker.arm(f"{self.point}=kill")
        request = asyncio.create_task(situation.request())
        try:
            await worker.died()
            await system.start_worker()
            answer = await asyncio.wait_for(request, PATIENCE_SECONDS)
        finally:
            request.cancel()
        await situation.finish()
        assert first_answer(await situation.request()) == first_answer(answer)
        await check(system)
        assert system.evidence() == self.agent


def _rows(situation: type[Situation], agent: Mapping[str, int], *points: str) -> tuple[Row, ...]:
    return tuple(Row(situation, point, {AGENT: 1, **agent}) for point in points)


_FOLLOWED = {"a": 1, "a went on": 1, "b": 1}
_REPLACED = {"a": 1, "b": 1}

ROWS: tuple[Row, ...] = (
    *_rows(
        Create,
        {},
        "files.temporary_written:1",
        "files.temporary_written:2",
        "files.renamed:2",
        "creation.claimed",
        "launch.before_spawn",
        "launch.spawned",
        "launch.answered",
        "creation.document_written",
        "summary.written",
        "creation.receipt_written",
        "journal.appended",
        "session.committed",
    ),
    *_rows(
        Prompt,
        {"a": 1},
        "files.temporary_written",
        "session.committed:1",
        "deliver.sent",
        "session.committed:2",
        "journal.appended",
        "session.committed:3",
        "summary.written",
    ),
    *_rows(
        Lasting,
        {"a": 1, "a went on": 1},
        "session.committed:2",
        "journal.appended",
        "summary.written",
    ),
    *_rows(FollowUp, _FOLLOWED, "session.committed:1", "session.committed:2"),
    *_rows(
        AbortAndPrompt,
        _REPLACED,
        "session.committed:1",
        "interrupt.sent",
        "session.committed:2",
        "deliver.sent",
        "journal.appended",
    ),
    *_rows(Stop, {"a": 1}, "session.committed:1", "interrupt.sent"),
    *_rows(Ask, {"a": 1}, "session.committed:2"),
    *_rows(
        Answer,
        {"a": 1},
        "session.committed:1",
        "answer.sent",
        "session.committed:2",
        "journal.appended",
    ),
    *_rows(Reject, {}, "answer.sent"),
    *_rows(
        Close,
        {"a": 1},
        "session.committed",
        "close.tombstone_written",
        "close.runtime_closed",
        "journal.appended",
        "close.ended",
        "close.part_removed",
        "close.document_removed",
        "close.tombstone_completed",
    ),
)

MORE_ROWS: tuple[Row, ...] = (
    *_rows(Create, {}, "files.temporary_written:3", "files.renamed:1", "files.renamed:3"),
    *_rows(Prompt, {"a": 1}, "files.renamed"),
    *_rows(FollowUp, _FOLLOWED, "journal.appended:1"),
    *_rows(AbortAndPrompt, _REPLACED, "session.committed:3"),
    *_rows(Stop, {"a": 1}, "session.committed:2"),
    *_rows(Ask, {"a": 1}, "deliver.sent", "session.committed:1"),
    *_rows(Answer, {"a": 1}, "session.committed:3"),
    *_rows(Reject, {}, "session.committed:1", "session.committed:2"),
    *_rows(Close, {"a": 1}, "files.temporary_written:2", "files.renamed:3"),
)
"""For the long run: later passages of the same points."""
