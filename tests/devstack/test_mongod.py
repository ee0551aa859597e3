"""A real mongod, on machines that have one."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pymongo
import pytest

from muster.client.local_stack import StackInfo
from muster.devstack import Stack, StackOptions
from muster.devstack.ports import choose_port

pytestmark = pytest.mark.skipif(
    shutil.which("mongod") is None, reason="mongod isn't on PATH; SecantusDB stands in elsewhere"
)


def _client(info: StackInfo) -> pymongo.AsyncMongoClient[dict[str, object]]:
    assert info.mongo is not None
    assert info.mongo.where == "mongod on PATH"
    return pymongo.AsyncMongoClient(info.mongo.uri)


async def test_mongod_takes_transactions_and_keeps_its_data_under_another_port(
    data_dir: Path, plain_environ: dict[str, str]
) -> None:
    options = StackOptions(
        data_dir=data_dir,
        with_temporal=False,
        worker=False,
        mongo_port=choose_port(0),
        environ=plain_environ,
    )
    async with Stack(options) as stack, _client(stack.describe()) as mongo:
        await mongo.muster.create_collection("sample")
        async with mongo.start_session() as session, await session.start_transaction():
            await mongo.muster.sample.insert_one({"_id": 1}, session=session)
    moved = replace(options, mongo_port=choose_port(0))
    async with Stack(moved) as stack, _client(stack.describe()) as mongo:
        assert await mongo.muster.sample.find_one({"_id": 1}) == {"_id": 1}
