"""A database of its own for each test, on the run's one server."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator

import pytest

from muster.stores.documents.connection import Mongo, connect
from muster.stores.documents.indexes import ensure_indexes


@pytest.fixture
async def mongo(mongo_uri: str) -> AsyncIterator[Mongo]:
    """An empty database with Muster's indexes; it goes with the run's server."""
    async with connect(mongo_uri, f"muster_{uuid.uuid4().hex[:12]}") as mongo:
        await ensure_indexes(mongo)
        yield mongo
