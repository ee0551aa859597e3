"""What a caller is doing when a worker dies: each with what it takes to get there and after."""

from __future__ import annotations

from dataclasses import dataclass

from muster.domain.contract import Contract
from tests.faults.harness import System


@dataclass
class Situation:
    """One request to a system, and the times before and after it.

    Args:
        system: Has a worker.
    """

    system: System
    session: str = ""

    async def prepare(self) -> None:
        """Everything that comes before the request."""
        self.session = (await self.system.create()).session_id
        await self.system.idle(self.session)

    async def request(self) -> Contract:
        """The request, under its key: asked again it is the same."""
        raise NotImplementedError

    async def finish(self) -> None:
        """What follows once the worker was replaced and the request is answered."""

    async def _running(self) -> None:
        """A turn that runs until it is released or cancelled."""
        await Situation.prepare(self)
        system = self.system
        await system.prompt(self.session, "a", system.script("a", until="go"))
        await system.left("a")


class Create(Situation):
    """A session is created."""

    async def prepare(self) -> None:
        return

    async def request(self) -> Contract:
        return await self.system.create()


class Prompt(Situation):
    """An idle session gets a prompt."""

    async def request(self) -> Contract:
        return await self.system.prompt(self.session, "a", self.system.script("a"))


class Lasting(Situation):
    """An idle session gets a prompt that runs long enough to be announced meanwhile."""

    async def request(self) -> Contract:
        return await self.system.prompt(self.session, "a", self.system.script("a", until="go"))

    async def finish(self) -> None:
        self.system.release("go")


class FollowUp(Situation):
    """A prompt is queued behind a turn, which then ends."""

    async def prepare(self) -> None:
        await self._running()

    async def request(self) -> Contract:
        text = self.system.script("b")
        return await self.system.prompt(self.session, "b", text, "turn.follow_up")

    async def finish(self) -> None:
        self.system.release("go")


class AbortAndPrompt(Situation):
    """A prompt replaces the turn that runs."""

    async def prepare(self) -> None:
        await self._running()

    async def request(self) -> Contract:
        text = self.system.script("b")
        return await self.system.prompt(self.session, "b", text, "turn.abort_and_prompt")


class Stop(Situation):
    """The turn that runs is stopped."""

    async def prepare(self) -> None:
        await self._running()

    async def request(self) -> Contract:
        return await self.system.stop(self.session, "stop")


class Ask(Situation):
    """A prompt whose agent asks; the question is answered once the worker was replaced."""

    async def request(self) -> Contract:
        return await self.system.prompt(self.session, "a", self.system.script("a", ask=True))

    async def finish(self) -> None:
        question = await self.system.question(self.session)
        await self.system.answer(self.session, question, "allow_once", "yes")


class Answer(Situation):
    """A question is answered."""

    option = "allow_once"
    question = ""

    async def prepare(self) -> None:
        await super().prepare()
        await self.system.prompt(self.session, "a", self.system.script("a", ask=True))
        self.question = await self.system.question(self.session)

    async def request(self) -> Contract:
        return await self.system.answer(self.session, self.question, self.option, "answer")


class Reject(Answer):
    """A question is answered with no."""

    option = "reject_once"


class Close(Situation):
    """A session is closed while its turn runs, by force."""

    async def prepare(self) -> None:
        await self._running()

    async def request(self) -> Contract:
        return await self.system.close(self.session)
