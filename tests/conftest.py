"""Servers shared by the whole test run; each starts when the first test asks for it.

`temporal` and `time_skipping` share nothing but their interface: take the second where time has
to pass, and the first where listing, Temporal Schedules or the real server's limits matter.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
from temporalio.client import Client
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.testing import WorkflowEnvironment

from muster.client.setup import register_search_attributes
from muster.devstack import Stack, StackOptions, TemporalChoice
from muster.devstack.temporal import find_test_server

SERVER_SETTINGS = ("TEMPORAL_", "MUSTER_")

_COMPONENT = StackOptions(
    with_temporal=False,
    with_mongo=False,
    worker=False,
    ui=False,
    in_memory=True,
    temporal_port=0,
    ui_port=0,
    mongo_port=0,
)


@pytest.fixture(scope="session")
def plain_environ() -> dict[str, str]:
    """This process's environment without a setting that names a server: tests use their own."""
    return {
        name: value for name, value in os.environ.items() if not name.startswith(SERVER_SETTINGS)
    }


@pytest.fixture(scope="session")
async def temporal_address(
    tmp_path_factory: pytest.TempPathFactory, plain_environ: dict[str, str]
) -> AsyncIterator[str]:
    """The address of a full Temporal server, tuned as the development stack's, in memory."""
    options = replace(
        _COMPONENT,
        data_dir=tmp_path_factory.mktemp("temporal"),
        with_temporal=True,
        temporal=TemporalChoice.SERVER,
        environ=plain_environ,
    )
    async with Stack(options, _print) as stack:
        info = stack.describe().temporal
        assert info is not None
        yield info.address


@pytest.fixture(scope="session")
async def temporal(temporal_address: str) -> Client:
    """A client of the full server's namespace `default`, with the search attributes there."""
    return await Client.connect(temporal_address, data_converter=pydantic_data_converter)


@pytest.fixture(scope="session")
async def mongo_uri(
    tmp_path_factory: pytest.TempPathFactory, plain_environ: dict[str, str]
) -> AsyncIterator[str]:
    """The URI of a MongoDB-protocol server in its own process, data in a temporary folder."""
    options = replace(
        _COMPONENT,
        data_dir=tmp_path_factory.mktemp("mongo"),
        with_mongo=True,
        environ=plain_environ,
    )
    async with Stack(options, _print) as stack:
        info = stack.describe().mongo
        assert info is not None
        yield info.uri


@pytest.fixture
async def time_skipping(plain_environ: dict[str, str]) -> AsyncIterator[WorkflowEnvironment]:
    """The time-skipping test server, with the search attributes there; each test has its own.

    Time that one test lets pass would pass for what another has left behind, too.
    """
    program = find_test_server(plain_environ)
    assert program is not None, "temporal-test-server isn't installed; see docs/development.md"
    environment = await WorkflowEnvironment.start_time_skipping(
        data_converter=pydantic_data_converter, test_server_existing_path=str(program)
    )
    try:
        await register_search_attributes(environment.client)
        yield environment
    finally:
        await environment.shutdown()


def _print(event: object) -> None:
    """Shown by pytest when a server doesn't start."""
    print(event)


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    """A data folder of a stack that isn't there yet."""
    return tmp_path / ".muster"
