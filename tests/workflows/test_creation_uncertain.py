"""What nobody knows of a creation stays open, is looked for again, and waits for a decision."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import pytest
from temporalio.api.sdk.v1 import WorkflowMetadata
from temporalio.client import Client, WorkflowHandle, WorkflowUpdateFailedError
from temporalio.testing import WorkflowEnvironment

from muster.client.failures import coded
from muster.client.requests import create_command
from muster.domain.contracts import Decision, ResolveCommand, Resolved, Updates
from muster.domain.control import MusterStatus
from muster.domain.creation import CreateAnswer
from muster.domain.errors import ResourceGone, TerminalUncertain
from muster.domain.identifiers import create_workflow_id
from muster.domain.runtime import Launched, LaunchFound, LaunchRequest, LaunchState
from muster.domain.summaries import SessionSummary
from muster.runtimes.signing import generate_key
from tests.waiting import eventually, eventually_async
from tests.workflows.simulated_runtime import SimulatedRuntime
from tests.workflows.support import Home, minutes_pass, open_home, settings_of

FOREIGN = generate_key().verifier


class ForeignKeyRuntime(SimulatedRuntime):
    """Signs with a key of its own, for as long as `foreign` says so."""

    foreign = True
    asked = 0

    async def launch(self, request: LaunchRequest) -> Launched:
        """Launch, and state which key is used."""
        return self._stated(await super().launch(request))

    async def find_launch(self, request: LaunchRequest) -> LaunchFound:
        """What exists, with the key that it states."""
        found = await super().find_launch(request)
        if found.launched is None:
            return found
        return found.model_copy(update={"launched": self._stated(found.launched)})

    def _stated(self, launched: Launched) -> Launched:
        self.asked += 1
        if not self.foreign:
            return launched
        endpoint = launched.endpoint.model_copy(update={"verifier": FOREIGN})
        return launched.model_copy(update={"endpoint": endpoint, "used_key_id": FOREIGN.key_id})


class MuteRuntime(SimulatedRuntime):
    """Takes a launch and can't say what became of it, for as long as it is `mute`."""

    mute = True

    async def launch(self, request: LaunchRequest) -> Launched:
        """Launch; the reply is lost."""
        launched = await super().launch(request)
        if self.mute:
            raise ConnectionResetError("the reply was lost")
        return launched

    async def find_launch(self, request: LaunchRequest) -> LaunchFound:
        """Nothing certain about what was begun."""
        found = await super().find_launch(request)
        if self.mute and found.state != LaunchState.ABSENT:
            return LaunchFound(state=LaunchState.UNKNOWN, evidence="it gives no answer")
        return found


OpenHome = Callable[[SimulatedRuntime], AbstractAsyncContextManager[Home]]


@pytest.fixture
def open_with(temporal: Client, mongo_uri: str, tmp_path: Path) -> OpenHome:
    """A home on the full server with another runtime."""
    settings = settings_of(tmp_path, mongo_uri)
    return lambda runtime: open_home(temporal, settings, tmp_path / "work", runtime)


@pytest.fixture
def open_skipping(time_skipping: WorkflowEnvironment, mongo_uri: str, tmp_path: Path) -> OpenHome:
    """A home on the server in which time passes at once, with another runtime."""
    settings = settings_of(tmp_path, mongo_uri, cached_workflows=0)
    return lambda runtime: open_home(time_skipping.client, settings, tmp_path / "work", runtime)


def creation(home: Home) -> WorkflowHandle[object, object]:
    """The workflow of the creation under the key `key`."""
    namespace = home.settings.namespace
    digest = create_command(namespace, "key", home.spec()).key_digest
    return home.temporal.get_workflow_handle(create_workflow_id(namespace, digest))


async def resolve(home: Home, decision: Decision) -> Resolved:
    """An operator's decision."""
    try:
        resolved: Resolved = await creation(home).execute_update(
            Updates.RESOLVE, ResolveCommand(decision=decision), result_type=Resolved
        )
    except WorkflowUpdateFailedError as error:
        raise coded(error) from error
    return resolved


async def uncertain(home: Home) -> SessionSummary:
    """The one session that is listed as uncertain, once there is one."""

    async def look() -> SessionSummary | None:
        page = await home.client.sessions.list(statuses=(MusterStatus.UNCERTAIN,))
        return next(iter(page.summaries), None)

    found = await eventually_async(look)
    assert found is not None
    return found


@asynccontextmanager
async def creating(home: Home) -> AsyncIterator[asyncio.Task[CreateAnswer]]:
    """A creator who waits for as long as it takes."""
    task = asyncio.create_task(home.client.create(home.spec(), key="key", within=3600))
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_a_runtime_that_signs_with_a_foreign_key_is_uncertain_and_shown_with_evidence(
    open_with: OpenHome,
) -> None:
    async with open_with(ForeignKeyRuntime()) as home, creating(home) as creator:
        listed = await uncertain(home)
        assert FOREIGN.key_id[:12] in (listed.uncertain or "")
        handle = creation(home)
        assert listed.uncertain_workflow == handle.id
        query = f"MusterStatus = 'uncertain' AND MusterNamespace = '{home.settings.namespace}'"

        async def found() -> list[str]:
            return [each.id async for each in home.temporal.list_workflows(query)]

        assert await eventually_async(found) == [handle.id]
        details = await handle.query("__temporal_workflow_metadata", result_type=WorkflowMetadata)
        assert FOREIGN.key_id[:12] in details.current_details
        assert not creator.done()
        assert list(home.namespace_folder.glob("sessions/*/session.json")) == []
        await resolve(home, Decision.ABANDON)
        with pytest.raises(TerminalUncertain):
            await creator


async def test_adopting_takes_the_key_that_the_runtime_states(open_with: OpenHome) -> None:
    async with open_with(ForeignKeyRuntime()) as home, creating(home) as creator:
        await uncertain(home)
        resolved = await resolve(home, Decision.ADOPT)
        assert FOREIGN.key_id[:12] in resolved.evidence
        answer = await creator
        assert answer.verifier == FOREIGN
        assert home.runtime.calls["launch"] == 1
        assert await home.create("key") == answer


async def test_a_retry_asks_the_runtime_again_and_is_uncertain_again_if_it_says_the_same(
    open_with: OpenHome,
) -> None:
    runtime = ForeignKeyRuntime()
    async with open_with(runtime) as home, creating(home) as creator:
        await uncertain(home)
        before = runtime.asked
        await resolve(home, Decision.RETRY)
        await eventually(lambda: runtime.asked > before)
        runtime.foreign = False

        async def taken() -> bool:
            try:
                await resolve(home, Decision.RETRY)
            except ResourceGone:
                return False
            return True

        await eventually_async(taken)
        answer = await creator
        assert answer.verifier != FOREIGN
        assert runtime.calls["launch"] == 1


async def test_abandoning_ends_the_agent_takes_the_key_away_and_stays_the_answer(
    open_with: OpenHome,
) -> None:
    async with open_with(ForeignKeyRuntime()) as home, creating(home) as creator:
        listed = await uncertain(home)
        await resolve(home, Decision.ABANDON)
        with pytest.raises(TerminalUncertain) as refused:
            await creator
        assert home.agent(listed.session_id).gone
        assert list(home.namespace_folder.glob("keys/*")) == []
        assert (await home.client.sessions.get(listed.session_id)).status == "failed"
        with pytest.raises(TerminalUncertain) as again:
            await home.create("key")
        assert again.value.message == refused.value.message
        assert home.runtime.calls["launch"] == 1


async def test_a_launch_whose_reply_is_lost_is_adopted_and_not_made_again(
    open_with: OpenHome,
) -> None:
    runtime = MuteRuntime()
    async with open_with(runtime) as home, creating(home) as creator:
        await eventually(lambda: runtime.calls["launch"])
        runtime.mute = False
        answer = await creator
        assert runtime.calls["launch"] == 1
        assert (await home.control(answer.session_id)).status == "waiting"


async def test_what_is_unknown_after_ten_minutes_finishes_by_itself_once_it_can_be_told(
    open_skipping: OpenHome, time_skipping: WorkflowEnvironment
) -> None:
    runtime = MuteRuntime()
    async with open_skipping(runtime) as home, creating(home) as creator:
        await eventually(lambda: runtime.calls["launch"])
        await minutes_pass(time_skipping, 12)
        assert "no answer" in ((await uncertain(home)).uncertain or "")
        assert not creator.done()
        runtime.mute = False
        await minutes_pass(time_skipping, 2)
        answer = await creator
        assert runtime.calls["launch"] == 1
        assert (await home.client.sessions.get(answer.session_id)).status == "waiting"


async def test_what_is_unknown_is_ended_when_it_is_abandoned_however_late_it_shows(
    open_skipping: OpenHome, time_skipping: WorkflowEnvironment
) -> None:
    runtime = MuteRuntime()
    async with open_skipping(runtime) as home, creating(home) as creator:
        await eventually(lambda: runtime.calls["launch"])
        await minutes_pass(time_skipping, 12)
        session = (await uncertain(home)).session_id
        await resolve(home, Decision.ABANDON)
        await minutes_pass(time_skipping, 2)
        assert not creator.done()
        assert not runtime.agent(session).gone
        runtime.mute = False
        await minutes_pass(time_skipping, 2)
        with pytest.raises(TerminalUncertain):
            await creator
        assert runtime.agent(session).gone
        assert runtime.calls["launch"] == 1
