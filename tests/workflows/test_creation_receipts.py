"""The first answer stands for ever, and a creation that is refused leaves nothing behind."""

from __future__ import annotations

import asyncio
import stat
from pathlib import Path

import pytest
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from muster.domain.creation import CreateAnswer, CreationReceipt, RegisteredEndpoint
from muster.domain.errors import (
    IdempotencyConflict,
    MusterError,
    RuntimeGone,
    SessionClosing,
    StateCorrupt,
    WorkingDirectoryUnusable,
)
from muster.domain.runtime import Launched, LaunchRequest
from muster.domain.turn_model import TurnStatus
from muster.runtimes.signing import generate_key
from tests.waiting import eventually
from tests.workflows.simulated_runtime import SimulatedRuntime
from tests.workflows.support import Home, open_home, settings_of


class MeetingRuntime(SimulatedRuntime):
    """Answers two launches when both are there."""

    def __init__(self) -> None:
        super().__init__()
        self._both = asyncio.Barrier(2)

    async def launch(self, request: LaunchRequest) -> Launched:
        """Launch, and wait for the other."""
        launched = await super().launch(request)
        await self._both.wait()
        return launched


class WatchfulRuntime(SimulatedRuntime):
    """Looks at what is on disk when it is asked to launch."""

    folder: Path
    seen: CreationReceipt
    key_mode: int

    async def launch(self, request: LaunchRequest) -> Launched:
        """Launch once the claim and the key were looked at."""
        self.seen = receipt_in(self.folder)
        key = self.folder / "keys" / f"{request.verifier.key_id}.pem"
        self.key_mode = stat.S_IMODE(key.stat().st_mode)
        return await super().launch(request)


def receipt_path(folder: Path) -> Path:
    """The one receipt of a namespace."""
    (path,) = folder.glob("creations/*/*.json")
    return path


def receipt_in(folder: Path) -> CreationReceipt:
    """What the one receipt of a namespace says."""
    return CreationReceipt.model_validate_json(receipt_path(folder).read_bytes())


def interrupt(home: Home) -> None:
    """Put the receipt back to what it was before the creation's last step."""
    receipt = receipt_in(home.namespace_folder).model_copy(
        update={"answer": None, "completed_at": None}
    )
    receipt_path(home.namespace_folder).write_text(receipt.model_dump_json())


def endpoint(incarnation: str) -> RegisteredEndpoint:
    """Where somebody else's agent lives."""
    return RegisteredEndpoint(
        endpoint_url="acp:elsewhere",
        endpoint_incarnation=incarnation,
        verifier=generate_key().verifier,
    )


async def test_claim_and_private_key_are_on_disk_for_nobody_else_before_anything_is_launched(
    temporal: Client, mongo_uri: str, tmp_path: Path
) -> None:
    runtime, settings = WatchfulRuntime(), settings_of(tmp_path, mongo_uri)
    async with open_home(temporal, settings, tmp_path / "work", runtime) as home:
        runtime.folder = home.namespace_folder
        answer = await home.create("key", title="one")
    assert runtime.key_mode == 0o600
    assert runtime.seen.request.title == "one"
    assert runtime.seen.sidecar_verifier == answer.verifier
    assert runtime.seen.answer is None


async def test_a_failure_is_the_first_answer_too(simulated: Home, forgetful: Home) -> None:
    missing = simulated.cwd / "later"
    with pytest.raises(WorkingDirectoryUnusable) as first:
        await simulated.create("key", cwd=str(missing))
    missing.mkdir()
    for asked in (simulated, forgetful):
        with pytest.raises(WorkingDirectoryUnusable) as again:
            await asked.create("key", cwd=str(missing))
        assert again.value.message == first.value.message
    assert simulated.runtime.calls["launch"] == 0
    assert list(simulated.namespace_folder.glob("keys/*")) == []
    await simulated.create("another key", cwd=str(missing))


async def test_a_session_id_that_is_taken_is_refused_before_a_launch_and_the_key_stays_usable(
    simulated: Home,
) -> None:
    await simulated.create("one", session_id="builder")
    with pytest.raises(SessionClosing, match="already lives"):
        await simulated.create("two", session_id="builder")
    assert simulated.runtime.calls["launch"] == 1
    await simulated.client.close("builder")
    answer = await simulated.create("two", session_id="builder")
    assert (await simulated.control(answer.session_id)).status == "waiting"


async def test_of_two_creators_who_both_launched_for_one_session_id_one_agent_is_left(
    temporal: Client, mongo_uri: str, tmp_path: Path
) -> None:
    runtime, settings = MeetingRuntime(), settings_of(tmp_path, mongo_uri)
    async with open_home(temporal, settings, tmp_path / "work", runtime) as home:
        heard = await asyncio.gather(
            *(home.create(key, session_id="builder") for key in ("one", "two")),
            return_exceptions=True,
        )
        (answer,) = (each for each in heard if isinstance(each, CreateAnswer))
        assert [type(each) for each in heard if each != answer] == [SessionClosing]
        alive = [each for each in runtime.agents.values() if not each.gone]
        assert [each.launched.endpoint.incarnation for each in alive] == [answer.incarnation]
        assert len(list(home.namespace_folder.glob("keys/*"))) == 1
        assert (await home.client.sessions.get("builder")).status == "waiting"


async def test_a_creation_that_temporal_forgot_before_its_last_step_is_completed(
    simulated: Home, forgetful: Home
) -> None:
    first = await simulated.create("key")
    interrupt(simulated)
    assert await forgetful.create("key") == first
    assert receipt_in(simulated.namespace_folder).completed_at is not None
    assert simulated.runtime.calls["launch"] == 1


async def test_a_complete_creation_starts_the_session_that_temporal_forgot(
    simulated: Home, forgetful: Home
) -> None:
    first = await simulated.create("key")
    assert await forgetful.create("key") == first
    assert (await forgetful.run(first.session_id, "go on")).status is TurnStatus.COMPLETED
    assert simulated.runtime.calls["launch"] == 1


async def test_a_complete_creation_starts_no_session_that_is_being_closed(
    simulated: Home, forgetful: Home
) -> None:
    first = await simulated.create("key")
    simulated.runtime.unknown["close"] = 1
    closing = asyncio.create_task(simulated.client.close(first.session_id))
    await eventually(lambda: list(simulated.namespace_folder.glob("deletions/*.json")))
    assert await forgetful.create("key") == first
    with pytest.raises(RPCError) as unknown:
        await forgetful.session_history(first.session_id)
    assert unknown.value.status is RPCStatusCode.NOT_FOUND
    closing.cancel()


async def test_a_session_closed_before_its_creation_s_last_step_is_not_created_again(
    simulated: Home, forgetful: Home
) -> None:
    first = await simulated.create("key")
    await simulated.client.close(first.session_id)
    interrupt(simulated)
    with pytest.raises(RuntimeGone, match="it was closed"):
        await forgetful.create("key")
    assert simulated.runtime.calls["launch"] == 1
    assert list(simulated.namespace_folder.glob("sessions/*/session.json")) == []


async def test_a_run_that_another_request_started_goes_on_with_what_was_claimed(
    simulated: Home, forgetful: Home
) -> None:
    first = await simulated.create("key", title="one")
    interrupt(simulated)
    with pytest.raises(IdempotencyConflict) as refused:
        await forgetful.create("key", title="two")
    assert refused.value.details["fields"] == ["title"]
    await eventually(lambda: receipt_in(simulated.namespace_folder).completed_at)
    assert await forgetful.create("key", title="one") == first


async def test_a_receipt_that_can_t_be_read_is_set_aside_and_its_key_starts_nothing_new(
    simulated: Home, forgetful: Home
) -> None:
    await simulated.create("key")
    path = receipt_path(simulated.namespace_folder)
    path.write_bytes(path.read_bytes()[:-40])
    for _ in range(2):
        with pytest.raises(StateCorrupt, match="aside"):
            await forgetful.create("key")
    assert simulated.runtime.calls["launch"] == 1


async def test_an_endpoint_that_was_closed_is_not_registered_again(simulated: Home) -> None:
    there = endpoint("inc-elsewhere")
    await simulated.create("one", kind="register", session_id="other", endpoint=there)
    await simulated.client.close("other")
    with pytest.raises(SessionClosing, match="was closed"):
        await simulated.create("two", kind="register", session_id="other", endpoint=there)
    again = endpoint("inc-later")
    answer = await simulated.create("three", kind="register", session_id="other", endpoint=again)
    assert answer.incarnation == "inc-later"


async def test_an_endpoint_that_is_registered_can_t_be_registered_as_something_else(
    simulated: Home,
) -> None:
    there = endpoint("inc-elsewhere")
    first = await simulated.create("one", kind="register", session_id="other", endpoint=there)
    with pytest.raises(IdempotencyConflict):
        await simulated.create(
            "two", kind="register", session_id="other", endpoint=there, title="x"
        )
    assert (
        await simulated.create("one", kind="register", session_id="other", endpoint=there) == first
    )
    assert (await simulated.client.sessions.get("other")).title is None


async def test_a_session_that_is_created_again_is_in_the_list_at_every_moment(
    simulated: Home,
) -> None:
    await simulated.create("one", session_id="builder")
    await simulated.client.close("builder")
    missing = 0
    done = asyncio.Event()

    async def reader() -> None:
        nonlocal missing
        while not done.is_set():
            try:
                await simulated.client.sessions.get("builder")
            except MusterError:
                missing += 1
            await asyncio.sleep(0)

    reading = asyncio.create_task(reader())
    again = await simulated.create("two", session_id="builder")
    done.set()
    await reading
    assert missing == 0
    assert (await simulated.client.sessions.get("builder")).incarnation == again.incarnation
