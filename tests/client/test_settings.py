"""Which servers a client talks to, and what its settings may be."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from muster.client import ClientSettings, choose_servers, load_settings, stack_servers
from muster.client.connection import DEFAULT_MONGO_URI, DEFAULT_TEMPORAL_ADDRESS, connect_temporal
from muster.client.local_stack import (
    LOCK_NAME,
    STATE_NAME,
    MongoInfo,
    StackInfo,
    TemporalInfo,
    TemporalKind,
    find_stack,
)
from muster.domain.errors import InvalidInput, MongoUnavailable, TemporalUnavailable

NOTHING = {"TEMPORAL_CONFIG_FILE": os.devnull}


def _info(data_dir: Path) -> StackInfo:
    return StackInfo(
        state="running",
        pid=os.getpid(),
        data_dir=str(data_dir),
        state_root=str(data_dir / "state"),
        temporal=TemporalInfo(
            kind=TemporalKind.SERVER, address="127.0.0.1:7001", namespace="dev", where="here"
        ),
        mongo=MongoInfo(uri="mongodb://127.0.0.1:7002", where="here"),
    )


def _describe(data_dir: Path) -> None:
    data_dir.mkdir()
    (data_dir / STATE_NAME).write_text(_info(data_dir).model_dump_json())


@pytest.fixture
def running(data_dir: Path) -> Iterator[Path]:
    """The folder beside a stack's data folder whose lock is held."""
    _describe(data_dir)
    with (data_dir / LOCK_NAME).open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield data_dir.parent


def test_a_running_stack_is_found_from_a_folder_below(running: Path) -> None:
    below = running / "a" / "b"
    below.mkdir(parents=True)
    servers = choose_servers(ClientSettings(mongo_uri=None), environ=NOTHING, folder=below)
    assert servers.address == "127.0.0.1:7001"
    assert servers.profile.namespace == "dev"
    assert servers.mongo_uri == "mongodb://127.0.0.1:7002"


def test_a_stack_whose_lock_nobody_holds_is_not_believed(data_dir: Path) -> None:
    _describe(data_dir)
    assert find_stack(data_dir.parent) is None


def test_without_settings_and_stack_the_usual_addresses_are_used(tmp_path: Path) -> None:
    servers = choose_servers(ClientSettings(mongo_uri=None), environ=NOTHING, folder=tmp_path)
    assert (servers.address, servers.mongo_uri) == (DEFAULT_TEMPORAL_ADDRESS, DEFAULT_MONGO_URI)
    assert servers.temporal_from == servers.mongo_from == "the usual address"


def test_a_configured_temporal_that_is_not_the_stacks_leaves_the_stack_alone(
    running: Path,
) -> None:
    environ = {**NOTHING, "TEMPORAL_ADDRESS": "cluster.example:7233"}
    servers = choose_servers(ClientSettings(mongo_uri=None), environ=environ, folder=running)
    assert servers.address == "cluster.example:7233"
    assert servers.mongo_uri == DEFAULT_MONGO_URI


def test_a_configured_mongo_that_is_not_the_stacks_leaves_the_stack_alone(running: Path) -> None:
    settings = ClientSettings(mongo_uri="mongodb://db.example")
    servers = choose_servers(settings, environ=NOTHING, folder=running)
    assert (servers.address, servers.mongo_uri) == (DEFAULT_TEMPORAL_ADDRESS, settings.mongo_uri)


def test_the_stacks_own_temporal_may_be_configured_and_its_mongo_is_found(running: Path) -> None:
    environ = {**NOTHING, "TEMPORAL_ADDRESS": "127.0.0.1:7001"}
    servers = choose_servers(ClientSettings(mongo_uri=None), environ=environ, folder=running)
    assert servers.mongo_uri == "mongodb://127.0.0.1:7002"


async def test_a_stack_without_temporal_is_not_passed_over_for_the_usual_address(
    running: Path, data_dir: Path
) -> None:
    half = _info(data_dir).model_copy(update={"temporal": None, "state": "starting"})
    (data_dir / STATE_NAME).write_text(half.model_dump_json())
    servers = choose_servers(ClientSettings(mongo_uri=None), environ=NOTHING, folder=running)
    with pytest.raises(TemporalUnavailable, match="starting"):
        await connect_temporal(servers)


def test_a_stack_without_mongodb_is_not_passed_over_for_the_usual_address(
    running: Path, data_dir: Path
) -> None:
    half = _info(data_dir).model_copy(update={"mongo": None})
    (data_dir / STATE_NAME).write_text(half.model_dump_json())
    with pytest.raises(MongoUnavailable, match="no MongoDB"):
        choose_servers(ClientSettings(mongo_uri=None), environ=NOTHING, folder=running)


def test_a_key_meant_for_a_cluster_is_not_sent_to_a_local_stack(running: Path) -> None:
    environ = {**NOTHING, "TEMPORAL_API_KEY": "secret"}
    servers = choose_servers(ClientSettings(mongo_uri=None), environ=environ, folder=running)
    assert servers.profile.api_key is None


def test_an_unreadable_temporal_configuration_is_refused(tmp_path: Path) -> None:
    broken = tmp_path / "temporal.toml"
    broken.write_text("[profile.default\n")
    with pytest.raises(InvalidInput):
        choose_servers(
            ClientSettings(mongo_uri=None),
            environ={"TEMPORAL_CONFIG_FILE": str(broken)},
            folder=tmp_path,
        )


def test_a_stack_that_is_half_up_says_what_it_lacks(data_dir: Path) -> None:
    whole = _info(data_dir)
    with pytest.raises(TemporalUnavailable):
        stack_servers(whole.model_copy(update={"temporal": None}))
    with pytest.raises(MongoUnavailable):
        stack_servers(whole.model_copy(update={"mongo": None}))


def test_an_unusable_variable_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MUSTER_TIMEOUT_SECONDS", "soon")
    with pytest.raises(InvalidInput, match="MUSTER_TIMEOUT_SECONDS"):
        load_settings()


def test_what_is_given_comes_before_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MUSTER_NAMESPACE", "from-environment")
    assert load_settings(namespace=None).namespace == "from-environment"
    assert load_settings(namespace="given").namespace == "given"


def test_a_session_is_placed_on_its_root_and_on_its_host() -> None:
    placement = ClientSettings(root="west", runtime_host="box-7").placement
    assert placement.root_queue == "muster-west"
    assert placement.runtime_queue == "muster-runtime-box-7"
