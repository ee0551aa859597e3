"""A stack in this process: what it starts, shows, keeps and repairs."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from dataclasses import replace
from pathlib import Path

import httpx
import pymongo
import pytest
from rich.console import Console
from temporalio.client import Client, WorkflowExecutionStatus

from muster.devstack import (
    EventKind,
    Stack,
    StackEvent,
    StackInfo,
    StackOptions,
    TemporalChoice,
    TemporalKind,
    read_stack,
    stack_table,
)
from muster.devstack.process import Child, process_started
from muster.devstack.supervisor import Supervisor
from muster.devstack.temporal import find_temporal
from muster.domain.errors import (
    MongoUnavailable,
    MusterError,
    OwnershipConflict,
    TemporalUnavailable,
)
from tests.devstack.programs import put_on_path
from tests.waiting import eventually


@pytest.fixture
def options(data_dir: Path, plain_environ: dict[str, str]) -> StackOptions:
    return StackOptions(
        data_dir=data_dir,
        worker=False,
        temporal_port=0,
        ui_port=0,
        mongo_port=0,
        environ=plain_environ,
    )


@pytest.fixture
def events() -> list[StackEvent]:
    return []


def _shown(info: StackInfo) -> str:
    console = Console(width=200)
    with console.capture() as captured:
        console.print(stack_table(info))
    return captured.get()


def _pid(info: StackInfo, name: str) -> int:
    return next(each.pid for each in info.processes if each.name == name)


def _document(info: StackInfo) -> pymongo.AsyncMongoClient[dict[str, object]]:
    assert info.mongo is not None
    return pymongo.AsyncMongoClient(info.mongo.uri)


async def test_a_started_stack_answers_on_every_address_of_its_table(
    options: StackOptions,
) -> None:
    async with Stack(options) as stack:
        info = stack.describe()
        assert info.temporal is not None
        assert info.mongo is not None
        client = await Client.connect(info.temporal.address)
        count = await client.count_workflows("MusterStatus = 'working'")
        async with httpx.AsyncClient() as web, _document(info) as mongo:
            page = await web.get(str(info.temporal.ui_url))
            await mongo.muster.sample.insert_one({"_id": 1})
        shown = _shown(info)
    assert count.count == 0
    assert page.status_code == 200
    for fact in (info.temporal.address, info.temporal.ui_url, info.mongo.uri, info.data_dir):
        assert str(fact) in shown
    assert "MUSTER_MONGO_URI: not set" in shown


async def test_a_stopped_stack_leaves_no_process_and_no_description(
    options: StackOptions, data_dir: Path
) -> None:
    stack = Stack(options)
    info = await stack.start()
    described = read_stack(data_dir)
    await stack.stop()
    assert described == info
    assert read_stack(data_dir) is None
    assert [each.name for each in info.processes if process_started(each.pid)] == []


async def test_a_restarted_stack_still_knows_its_workflows_and_documents(
    options: StackOptions,
) -> None:
    async with Stack(options) as first, _document(first.describe()) as mongo:
        temporal = first.describe().temporal
        assert temporal is not None
        client = await Client.connect(temporal.address)
        await client.start_workflow("Nobody", id="still-known", task_queue="nobody")
        await mongo.muster.sample.insert_one({"_id": "still-here"})
    async with Stack(options) as second, _document(second.describe()) as mongo:
        temporal = second.describe().temporal
        assert temporal is not None
        client = await Client.connect(temporal.address)
        found = await client.get_workflow_handle("still-known").describe()
        document = await mongo.muster.sample.find_one({"_id": "still-here"})
    assert found.status is WorkflowExecutionStatus.RUNNING
    assert document == {"_id": "still-here"}


async def test_a_second_start_in_the_same_folder_is_refused_and_disturbs_nothing(
    options: StackOptions, data_dir: Path
) -> None:
    async with Stack(replace(options, with_temporal=False)) as first:
        with pytest.raises(OwnershipConflict):
            await Stack(options).start()
        assert read_stack(data_dir) == first.describe()


async def test_a_taken_port_is_replaced_and_the_replacement_is_said(
    options: StackOptions, events: list[StackEvent]
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        wanted = replace(options, with_temporal=False, mongo_port=port)
        async with Stack(wanted, events.append) as stack:
            info = stack.describe()
    assert info.mongo is not None
    assert str(port) not in info.mongo.uri
    said = [each.message for each in events if each.kind is EventKind.NOTICE]
    assert len(said) == 1
    assert f"port {port} is taken" in said[0]


async def test_a_killed_server_comes_back_under_its_address_with_what_it_had_acknowledged(
    options: StackOptions, events: list[StackEvent], data_dir: Path
) -> None:
    async with Stack(replace(options, with_temporal=False), events.append) as stack:
        before = stack.describe()
        async with _document(before) as mongo:
            acknowledged = mongo.muster.get_collection(
                "sample", write_concern=pymongo.WriteConcern("majority")
            )
            for number in range(20):
                await acknowledged.insert_one({"_id": number})
        os.kill(_pid(before, "mongo"), signal.SIGKILL)
        await eventually(lambda: any(each.restarts for each in stack.describe().processes))
        async with _document(before) as mongo:
            count = await mongo.muster.sample.count_documents({})
        described = read_stack(data_dir)
        after = stack.describe()
    assert count == 20
    assert _pid(after, "mongo") != _pid(before, "mongo")
    assert described == after
    assert EventKind.RESTART in {each.kind for each in events}


async def test_a_process_that_never_stays_up_is_given_up_with_its_log_named(
    tmp_path: Path, plain_environ: dict[str, str], events: list[StackEvent]
) -> None:
    async def ready() -> bool:
        return True

    child = Child(
        "mongo",
        ["sh", "-c", "exit 3"],
        log=tmp_path / "mongo.log",
        ready=ready,
        environ=plain_environ,
        cwd=tmp_path,
    )
    given_up: asyncio.Future[MusterError] = asyncio.get_running_loop().create_future()
    await child.start()
    watch = Supervisor(
        child, events.append, lambda: None, given_up.set_result, delays=(0.01, 0.01, 0.01)
    )
    async with asyncio.timeout(20):
        error = await given_up
    await watch.stop()
    assert isinstance(error, MongoUnavailable)
    assert "status 3" in error.message
    assert str(tmp_path / "mongo.log") in error.message
    assert [each.kind for each in events].count(EventKind.RESTART) == 3


async def test_a_stack_that_is_half_up_says_which_log_to_read_and_stops_the_rest(
    options: StackOptions, tmp_path: Path, data_dir: Path, events: list[StackEvent]
) -> None:
    broken = '[ "$1" = --version ] && echo "temporal version 9 (Server 9)" || exit 7'
    environ = put_on_path(tmp_path / "bin", "temporal", broken, dict(options.environ))
    stack = Stack(replace(options, environ=environ), events.append)
    with pytest.raises(TemporalUnavailable) as raised:
        await stack.start()
    assert "status 7" in raised.value.message
    assert str(data_dir / "logs" / "temporal.log") in raised.value.message
    assert EventKind.STOPPED in {each.kind for each in events if each.component == "mongo"}
    assert stack.describe().processes == ()
    assert read_stack(data_dir) is None


async def test_a_server_that_lost_one_of_its_own_ports_is_started_again(
    options: StackOptions, tmp_path: Path
) -> None:
    lost = tmp_path / "lost"
    found = await find_temporal(TemporalChoice.SERVER, options.environ, lambda event: None)
    script = f"""
if [ "$1" = server ] && [ ! -e '{lost}' ]; then
  touch '{lost}'
  echo 'panic: listen tcp 127.0.0.1:40123: bind: address already in use'
  exit 2
fi
exec '{found.program}' "$@"
"""
    environ = put_on_path(tmp_path / "bin", "temporal", script, dict(options.environ))
    without_mongo = replace(options, with_mongo=False, in_memory=True, environ=environ)
    async with Stack(without_mongo) as stack:
        info = stack.describe().temporal
        assert lost.exists()
        assert info is not None
        await Client.connect(info.address)


async def test_the_forced_test_server_says_what_it_lacks_and_takes_the_search_attributes(
    options: StackOptions, events: list[StackEvent]
) -> None:
    environ = {**options.environ, "MUSTER_TEMPORAL": "test-server"}
    forced = replace(options, with_mongo=False, environ=environ)
    async with Stack(forced, events.append) as stack:
        info = stack.describe()
    assert info.temporal is not None
    assert info.temporal.kind is TemporalKind.TEST_SERVER
    assert info.temporal.ui_url is None
    notices = [each.message for each in events if each.kind is EventKind.NOTICE]
    assert any("no UI" in each and "no listing" in each for each in notices)
    assert "listing" in _shown(info)


async def test_a_password_in_a_mongo_uri_is_never_shown(data_dir: Path) -> None:
    info = StackInfo.model_validate(
        {
            "state": "running",
            "pid": 1,
            "data_dir": str(data_dir),
            "state_root": str(data_dir / "state"),
            "mongo": {"uri": "mongodb://me:s3cret@db.example/?tls=true", "where": "given"},
        }
    )
    shown = _shown(info) + info.redacted().model_dump_json()
    assert "s3cret" not in shown
    assert "mongodb://me:***@db.example" in shown
