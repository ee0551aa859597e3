"""An agent for the tests: it runs scripts like the scripted one and ignores every cancel."""

from __future__ import annotations

import asyncio
from typing import Any

from muster.runtimes.acp.scripted_agent import ScriptedAgent
from muster.runtimes.acp.sdk import acp


class StubbornAgent(ScriptedAgent):
    """Takes a cancel and goes on."""

    async def cancel(self, session_id: str, **_: Any) -> None:
        """Do nothing."""


asyncio.run(acp.run_agent(StubbornAgent()))  # type: ignore[arg-type]
