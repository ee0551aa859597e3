"""Waiting for a session by looking at its summary; nobody has to be told that somebody waits."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from enum import StrEnum
from typing import Final

from muster.client.reading import SessionReader
from muster.domain.control import MusterStatus
from muster.domain.errors import ResourceGone, TimedOut
from muster.domain.summaries import SessionSummary
from muster.domain.turn_model import TERMINAL_TURN
from muster.domain.view import SessionView, TurnView

POLL_SECONDS: Final = 0.1
SLOWEST_POLL_SECONDS: Final = 1.0
"""Every look without news is a tenth further away, up to this."""

RESTING: Final = frozenset({MusterStatus.WAITING, MusterStatus.DONE, MusterStatus.FAILED})

OnChange = Callable[[SessionSummary], None]


class Awaited(StrEnum):
    """What one can wait for."""

    IDLE = "idle"
    """No turn runs and none is queued."""
    QUESTION = "question"
    """A question is open."""
    CLOSED = "closed"


def holds(awaited: Awaited, summary: SessionSummary) -> bool:
    """Whether a session is as awaited."""
    if awaited is Awaited.CLOSED:
        return summary.closed_at is not None
    if awaited is Awaited.QUESTION:
        return summary.open_questions > 0
    return summary.status in RESTING and summary.queued == 0


class Waiter:
    """Waits on one namespace's sessions.

    Args:
        sessions: What readers see.
        revision: Asks a session's workflow for its revision; 0 if it can't be told.
    """

    def __init__(self, sessions: SessionReader, revision: Callable[[str], Awaitable[int]]) -> None:
        self._sessions = sessions
        self._revision = revision

    async def changes(self, session: str) -> AsyncIterator[SessionSummary]:
        """The session's summary now and whenever it has changed, until the session is closed.

        Raises:
            ResourceGone: There is no such session.
        """
        last, pause = None, POLL_SECONDS
        while last is None or last.closed_at is None:
            found = await self._sessions.get(session)
            if found == last:
                pause = min(pause * 1.1, SLOWEST_POLL_SECONDS)
            else:
                last, pause = found, POLL_SECONDS
                yield found
            await asyncio.sleep(pause)

    async def until(
        self,
        session: str,
        awaited: Awaited,
        *,
        within: float | None = None,
        on_change: OnChange | None = None,
    ) -> SessionSummary:
        """Wait until a session is as awaited.

        What was answered before this call counts: the readers' copy, which follows a moment
        later, is waited for. Without a worker to ask, it is taken as it is.

        Args:
            within: Seconds; None waits for ever.
            on_change: Gets the summary each time it has changed.

        Raises:
            TimedOut: It isn't, within that time.
            ResourceGone: There is no such session, or it is closed and won't be as awaited.
        """
        found: SessionSummary | None = None
        try:
            async with asyncio.timeout(within):
                revision = await self._revision(session)
                async for found in self.changes(session):
                    if on_change:
                        on_change(found)
                    current = found.revision >= revision or found.closed_at is not None
                    if current and holds(awaited, found):
                        return found
        except TimeoutError:
            status = found.status.value if found else "not seen yet"
            raise TimedOut(
                f"session {session} is {status} and wasn't {awaited.value} within {within:g} s; "
                "it goes on",
                status=status,
            ) from None
        raise ResourceGone(f"session {session} is closed; it won't be {awaited.value} any more")

    async def turn(
        self,
        session: str,
        turn: str,
        *,
        within: float | None = None,
        on_change: OnChange | None = None,
    ) -> TurnView:
        """Wait until a turn has ended, however it did.

        Raises:
            TimedOut: It hasn't, within that time.
            ResourceGone: The session was closed before, or has no such turn any more.
        """
        try:
            async with asyncio.timeout(within):
                revision = await self._revision(session)
                async for summary in self.changes(session):
                    if on_change:
                        on_change(summary)
                    view = await self._sessions.view(session)
                    found = _turn_in(view, turn)
                    if found is not None and found.status in TERMINAL_TURN:
                        return found
                    if found is None and view is not None and view.revision >= revision > 0:
                        _require_queued(view, turn)
        except TimeoutError:
            raise TimedOut(
                f"turn {turn} of session {session} hasn't ended within {within:g} s; it goes on",
                turn_id=turn,
            ) from None
        raise ResourceGone(f"session {session} was closed before turn {turn} ended")


def _turn_in(view: SessionView | None, turn: str) -> TurnView | None:
    turns = view.turns if view else ()
    return next((each for each in turns if each.turn_id == turn), None)


def _require_queued(view: SessionView, turn: str) -> None:
    """Raises ResourceGone for a turn that is out of sight for good: nobody will see it end."""
    if turn not in view.queue and len(view.queue) == view.queued:
        raise ResourceGone(
            f"turn {turn} isn't among the last turns of session {view.session_id}: it ended long "
            "ago, or never was; `muster session show` lists the last ones",
            turn_id=turn,
        )
