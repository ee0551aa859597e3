"""What the demo does, step by step, and what has to be true after each."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from muster.client import Awaited, ClientSettings, MusterClient, stack_servers
from muster.client.requests import create_command
from muster.devstack.demo_evidence import Evidence, evidence
from muster.devstack.demo_progress import Story
from muster.devstack.demo_repository import PROMPTS, Prompt, Repository
from muster.devstack.stack import Stack
from muster.domain.contracts import Activities
from muster.domain.creation import CreateAnswer, CreateSpec
from muster.domain.errors import AlreadyAnswered, IdempotencyConflict, TimedOut
from muster.domain.identifiers import (
    close_workflow_id,
    create_workflow_id,
    session_workflow_id,
)
from muster.domain.turn_model import TurnStatus
from muster.domain.view import TurnView

NAMESPACE = "demo"

STEP_SECONDS = 90.0
"""How long one step may take, a crash and the recovery from it included."""

POLL_SECONDS = 0.05


@dataclass
class Scenario:
    """One run of the demo on a running stack."""

    story: Story
    stack: Stack
    repository: Repository
    name: str
    client: MusterClient
    session: str = ""
    found: list[Evidence] = field(default_factory=list)
    """What the histories count, each taken when its workflow had done its work."""

    @classmethod
    @contextlib.asynccontextmanager
    async def connected(
        cls, story: Story, stack: Stack, repository: Repository, name: str, host: str
    ) -> AsyncIterator[Self]:
        """A scenario whose client speaks to the stack."""
        info = stack.describe()
        settings = ClientSettings(
            namespace=NAMESPACE,
            root=name,
            runtime_host=host,
            timeout_seconds=STEP_SECONDS,
        )
        async with MusterClient(settings, servers=stack_servers(info)) as client:
            yield cls(story, stack, repository, name, client)

    async def play(self, kill_after: list[float]) -> list[Evidence]:
        """All of it; returns what the workflows' histories count."""
        killers = [asyncio.create_task(self._kill_later(each)) for each in kill_after]
        try:
            created = await self._create()
            await self._prompt(PROMPTS[0], number=1)
            await self._prompt(PROMPTS[1], number=2, kill=True)
            await self._prompt(PROMPTS[2], number=3)
            await self._repeat(created)
            await self._close(created)
        finally:
            for each in killers:
                each.cancel()
        return self.found

    @property
    def _spec(self) -> CreateSpec:
        return CreateSpec(cwd=str(self.repository.folder), title="Demo", session_id=self.name)

    def _key(self, what: str) -> str:
        return f"{self.name}/{what}"

    async def _create(self) -> CreateAnswer:
        with self.story.step("create a session"):
            created = await self.client.create(self._spec, key=self._key("create"))
            self.session = created.session_id
            listed = await self.client.sessions.list()
            found = [each.session_id for each in listed.summaries]
            self.story.claim(
                "the session is there and listed once",
                found.count(self.session) == 1,
                f"{self.session}, incarnation {created.incarnation}",
            )
            command = create_command(NAMESPACE, self._key("create"), self._spec)
            counted = await self._count(create_workflow_id(NAMESPACE, command.key_digest))
            launches = counted.times(Activities.LAUNCH)
            self.story.claim("one agent was launched", launches == 1, f"{launches} launches")
            return created

    async def _prompt(self, prompt: Prompt, *, number: int, kill: bool = False) -> None:
        before = self.repository.git("rev-parse", "HEAD")
        with self.story.step(f"prompt {number}: {prompt.title}"):
            accepted = await self.client.send(
                self.session, prompt.script, key=self._key(prompt.name)
            )
            await self._allow(accepted.turn_id, twice=number == 1)
            if kill:
                await self._until(lambda: self.repository.runs(prompt) > 0, "the script starts")
                await self._kill_worker("while the script runs")
            turn = await self.client.wait_turn(self.session, accepted.turn_id, within=STEP_SECONDS)
        self._check(prompt, turn, before)

    def _check(self, prompt: Prompt, turn: TurnView, before: str) -> None:
        story, repository = self.story, self.repository
        after = repository.git("rev-parse", "HEAD")
        story.claim(
            f"the {prompt.name} prompt's turn completed",
            turn.status is TurnStatus.COMPLETED,
            f"{turn.status.value}, {turn.stop_reason}",
        )
        runs = repository.runs(prompt)
        story.claim("its script ran once, counted by itself", runs == 1, f"{runs} times")
        commits = repository.commits_of(prompt.changes)
        story.claim(
            f"{prompt.changes} is committed once and nothing is left over",
            commits == 1 and repository.clean(),
            f"head {before[:7]} → {after[:7]}",
        )
        story.claim(
            "the turn's report names the same heads",
            (turn.head_before, turn.head_after) == (before, after),
            f"{str(turn.head_before)[:7]} → {str(turn.head_after)[:7]}",
        )

    async def _allow(self, turn_id: str, *, twice: bool) -> None:
        await self.client.wait(self.session, Awaited.QUESTION, within=STEP_SECONDS)
        (question, *_) = await self.client.sessions.questions(self.session)
        options = {each.kind: each.option_id for each in question.options}
        allowed, rejected = options["allow_once"], options["reject_once"]
        self.story.say(f"it asks: {' '.join(question.prompt.split())[:70]}")
        await self.client.answer(
            self.session, question.question_id, allowed, key=self._key(f"answer {turn_id}")
        )
        self.story.say("answered: allow once")
        if not twice:
            return
        try:
            await self.client.answer(self.session, question.question_id, rejected)
            heard = "it was taken"
        except AlreadyAnswered as error:
            heard = f"already answered with {error.details.get('option_id')}"
        self.story.claim("a second, different answer hears what won", allowed in heard, heard)

    async def _kill_worker(self, when: str) -> None:
        first = self._worker()
        if first is None:
            return
        os.kill(first, signal.SIGKILL)
        self.story.say(f"killed worker {first} with SIGKILL {when}")
        await self._until(lambda: self._worker() not in (None, first), "another worker starts")
        self.story.say(f"worker {self._worker()} has taken over")

    async def _kill_later(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
        await self._kill_worker(f"{seconds:g} s after the beginning")

    def _worker(self) -> int | None:
        processes = self.stack.describe().processes
        return next((each.pid for each in processes if each.name == "worker"), None)

    async def _repeat(self, created: CreateAnswer) -> None:
        second = PROMPTS[1]
        with self.story.step("send the second prompt again under its key"):
            again = await self.client.send(self.session, second.script, key=self._key(second.name))
            turn = await self.client.sessions.turn(self.session, again.turn_id)
            self.story.claim(
                "the repeat got the first answer and started nothing",
                again.repeated and turn is not None and self.repository.runs(second) == 1,
                f"{again.turn_id}, {turn.status.value if turn else 'missing'}",
            )
        with self.story.step("send another prompt under that key"):
            try:
                await self.client.send(self.session, "echo other", key=self._key(second.name))
                heard = "it was accepted"
            except IdempotencyConflict as error:
                heard = f"{error.code}: {error.message}"
            self.story.claim(
                "another prompt under that key is refused as a conflict",
                heard.startswith(IdempotencyConflict.code),
                heard,
            )
        with self.story.step("create the session again under its key"):
            repeated = await self.client.create(self._spec, key=self._key("create"))
            self.story.claim(
                "the repeated creation got the first session",
                repeated == created,
                f"incarnation {repeated.incarnation}",
            )

    async def _close(self, created: CreateAnswer) -> None:
        with self.story.step("close the session"):
            closed = await self.client.close(self.session, incarnation=created.incarnation)
            counted = await self._count(session_workflow_id(NAMESPACE, self.session))
            delivered = counted.times(Activities.DELIVER)
            self.story.claim(
                "each prompt was handed to the agent once",
                delivered == len(PROMPTS),
                f"{delivered} deliveries",
            )
            await self._count(close_workflow_id(NAMESPACE, self.session, created.incarnation))
            again = await self.client.close(self.session, incarnation=created.incarnation)
            summary = await self.client.sessions.get(self.session)
            self.story.claim(
                "the session is closed, and a second close hears the first one's answer",
                summary.closed_at is not None and again == closed,
                f"{summary.status.value}, {closed.deletion_id}",
            )
        folder = Path(self.stack.state_root) / "v2" / NAMESPACE / "sessions" / self.session
        self.story.claim(
            "its document and its agent's folder are gone, the repository isn't",
            not (folder / "session.json").exists() and self.repository.folder.exists(),
            self.repository.git("log", "--oneline", "-1"),
        )

    async def _count(self, workflow_id: str) -> Evidence:
        found = await evidence(await self.client.temporal(), workflow_id)
        self.found.append(found)
        return found

    async def _until(self, holds: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + STEP_SECONDS
        while not holds():
            if time.monotonic() > deadline:
                raise TimedOut(f"the demo waited {STEP_SECONDS:g} s in vain: {what}")
            await asyncio.sleep(POLL_SECONDS)
