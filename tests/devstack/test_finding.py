"""Where servers are looked for, in which order, and what is said when there are none."""

from __future__ import annotations

from pathlib import Path

import pytest
from google.protobuf.duration_pb2 import Duration
from temporalio.api.operatorservice.v1 import ListSearchAttributesRequest
from temporalio.api.workflowservice.v1 import RegisterNamespaceRequest
from temporalio.client import Client
from temporalio.service import RPCError
from temporalio.testing import WorkflowEnvironment

from muster.client.setup import register_search_attributes
from muster.devstack import StackEvent, TemporalChoice, TemporalKind
from muster.devstack.mongo import MongoKind, check_mongo, find_mongo
from muster.devstack.ports import choose_port
from muster.devstack.temporal import find_temporal, temporal_choice
from muster.domain.errors import InvalidInput, MongoUnavailable, TemporalUnavailable
from muster.domain.search_attributes import SEARCH_ATTRIBUTES
from tests.devstack.programs import put_on_path
from tests.waiting import eventually_async

A_TEMPORAL_COMMAND = 'echo "temporal version 9 (Server 9, UI 9)"'


@pytest.fixture
def bare_environ(tmp_path: Path) -> dict[str, str]:
    """A machine with a shell and nothing else."""
    return {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path / "c")}


def _ignore(_event: StackEvent) -> None:
    pass


async def test_a_configured_address_that_is_silent_is_an_error_and_not_passed_over(
    bare_environ: dict[str, str], tmp_path: Path
) -> None:
    environ = put_on_path(tmp_path / "bin", "temporal", A_TEMPORAL_COMMAND, bare_environ)
    silent = f"127.0.0.1:{choose_port(0)}"
    with pytest.raises(TemporalUnavailable, match=silent) as raised:
        await find_temporal(TemporalChoice.AUTO, {**environ, "TEMPORAL_ADDRESS": silent}, _ignore)
    assert "remove it" in raised.value.message


async def test_a_configured_address_that_answers_is_used(
    bare_environ: dict[str, str], temporal_address: str
) -> None:
    environ = {**bare_environ, "TEMPORAL_ADDRESS": temporal_address}
    found = await find_temporal(TemporalChoice.AUTO, environ, _ignore)
    assert (found.kind, found.address) == (TemporalKind.EXTERNAL, temporal_address)


async def test_a_namespace_that_the_configured_server_lacks_is_named(
    bare_environ: dict[str, str], temporal_address: str
) -> None:
    environ = {
        **bare_environ,
        "TEMPORAL_ADDRESS": temporal_address,
        "TEMPORAL_NAMESPACE": "nowhere",
    }
    with pytest.raises(TemporalUnavailable, match="'nowhere'"):
        await find_temporal(TemporalChoice.AUTO, environ, _ignore)


async def test_a_configuration_file_that_is_no_toml_is_bad_input(
    bare_environ: dict[str, str], tmp_path: Path
) -> None:
    broken = tmp_path / "temporal.toml"
    broken.write_text("[profile")
    with pytest.raises(InvalidInput, match=r"temporal\.toml"):
        await find_temporal(
            TemporalChoice.AUTO, {**bare_environ, "TEMPORAL_CONFIG_FILE": str(broken)}, _ignore
        )


async def test_the_command_on_path_comes_before_the_cache(
    bare_environ: dict[str, str], tmp_path: Path
) -> None:
    cache = tmp_path / "c" / "muster" / "bin"
    cache.parent.mkdir(parents=True)
    put_on_path(cache, "temporal", A_TEMPORAL_COMMAND, bare_environ)
    environ = put_on_path(tmp_path / "bin", "temporal", A_TEMPORAL_COMMAND, bare_environ)
    first = await find_temporal(TemporalChoice.AUTO, environ, _ignore)
    second = await find_temporal(TemporalChoice.AUTO, bare_environ, _ignore)
    assert first.program == tmp_path / "bin" / "temporal"
    assert second.program == cache / "temporal"


async def test_another_program_of_that_name_on_path_is_passed_over_and_named(
    bare_environ: dict[str, str], tmp_path: Path
) -> None:
    environ = put_on_path(tmp_path / "bin", "temporal", "echo calendar 1.0", bare_environ)
    cache = tmp_path / "c" / "muster" / "bin"
    cache.parent.mkdir(parents=True)
    put_on_path(cache, "temporal", A_TEMPORAL_COMMAND, bare_environ)
    found = await find_temporal(TemporalChoice.AUTO, environ, _ignore)
    assert found.program == cache / "temporal"
    outcomes = {each.where: each.outcome for each in found.attempts}
    assert "isn't a Temporal command" in outcomes["temporal on PATH"]


async def test_an_unknown_choice_of_temporal_is_bad_input() -> None:
    with pytest.raises(InvalidInput, match="test-server"):
        temporal_choice(None, {"MUSTER_TEMPORAL": "cassandra"})


async def test_a_configured_mongo_that_is_silent_is_an_error_without_its_password(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("muster.devstack.mongo.CONNECT_MILLISECONDS", 300)
    uri = f"mongodb://me:s3cret@127.0.0.1:{choose_port(0)}/"
    with pytest.raises(MongoUnavailable) as raised:
        await find_mongo({"MUSTER_MONGO_URI": uri})
    assert "s3cret" not in raised.value.message
    assert "MUSTER_MONGO_URI" in raised.value.message


async def test_a_mongo_uri_that_is_none_is_reported_as_such() -> None:
    with pytest.raises(MongoUnavailable, match="MUSTER_MONGO_URI"):
        await check_mongo("http://127.0.0.1/")


async def test_mongod_on_path_comes_before_the_python_server(
    bare_environ: dict[str, str], tmp_path: Path
) -> None:
    with_mongod = put_on_path(tmp_path / "bin", "mongod", "exit 0", bare_environ)
    assert (await find_mongo(with_mongod)).kind is MongoKind.MONGOD
    assert (await find_mongo(bare_environ)).kind is MongoKind.SECANTUS


async def test_registering_search_attributes_again_adds_none(
    temporal: Client, time_skipping: WorkflowEnvironment
) -> None:
    assert await register_search_attributes(temporal) == []
    assert await register_search_attributes(time_skipping.client) == []


async def _knows_its_namespace(client: Client) -> bool:
    try:
        await client.operator_service.list_search_attributes(
            ListSearchAttributesRequest(namespace=client.namespace)
        )
    except RPCError:
        return False
    return True


async def test_search_attributes_that_are_missing_are_registered_in_a_namespace_without_them(
    temporal_address: str,
) -> None:
    client = await Client.connect(temporal_address, namespace="bare")
    await client.workflow_service.register_namespace(
        RegisterNamespaceRequest(
            namespace="bare", workflow_execution_retention_period=Duration(seconds=86400)
        )
    )
    await eventually_async(lambda: _knows_its_namespace(client))
    assert await register_search_attributes(client) == list(SEARCH_ATTRIBUTES)
    assert await register_search_attributes(client) == []
