"""Large content by its sha256: complete or not there."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator, Iterator

import pytest
from bson.binary import Binary

from muster.domain.errors import LimitExceeded, ResourceGone, StateCorrupt
from muster.stores.documents.connection import Mongo
from muster.stores.documents.content import CHUNK_SIZE, CONTENT_LIMIT, MIB, Contents


@pytest.fixture
def contents(mongo: Mongo) -> Contents:
    return Contents(mongo)


def pattern(length: int) -> bytes:
    """Bytes in which no two chunks are alike."""
    block = b"".join(number.to_bytes(4, "big") for number in range(-(-length // 4)))
    return block[:length]


async def read_into(given: bytearray, contents: Contents, sha256: str) -> None:
    """Add each piece as it comes, so that a test sees what came before an error."""
    async for piece in contents.read(sha256):
        given += piece


async def whole(contents: Contents, sha256: str) -> bytes:
    given = bytearray()
    await read_into(given, contents, sha256)
    return bytes(given)


async def count(mongo: Mongo, collection: str) -> int:
    return await mongo.collection(collection).count_documents({})


@pytest.mark.parametrize(
    "length", [0, 1, CHUNK_SIZE - 1, CHUNK_SIZE, CHUNK_SIZE + 1, 9 * CHUNK_SIZE + 5]
)
async def test_content_reads_back_under_its_sha256(contents: Contents, length: int) -> None:
    data = pattern(length)
    reference = await contents.stage([data])
    assert (reference.sha256, reference.length) == (hashlib.sha256(data).hexdigest(), length)
    assert await whole(contents, reference.sha256) == data


async def test_how_the_pieces_arrive_makes_no_difference(contents: Contents, mongo: Mongo) -> None:
    data = pattern(2 * CHUNK_SIZE + 100)

    async def pieces() -> AsyncIterator[bytes]:
        for start in range(0, len(data), 70_001):
            yield data[start : start + 70_001]

    assert await contents.stage(pieces()) == await contents.stage([data])
    assert (await count(mongo, "contents"), await count(mongo, "content_chunks")) == (1, 3)


async def test_staging_at_once_from_several_places_stores_it_once(
    contents: Contents, mongo: Mongo
) -> None:
    data = pattern(3 * CHUNK_SIZE)
    references = await asyncio.gather(*(contents.stage([data]) for _ in range(3)))
    assert len(set(references)) == 1
    assert (await count(mongo, "contents"), await count(mongo, "content_chunks")) == (1, 3)
    assert await whole(contents, references[0].sha256) == data


async def test_content_past_the_limit_is_refused_before_anything_is_written(
    contents: Contents, mongo: Mongo
) -> None:
    def too_much() -> Iterator[bytes]:
        piece = bytes(8 * MIB)
        for _ in range(CONTENT_LIMIT // len(piece)):
            yield piece
        yield b"x"

    with pytest.raises(LimitExceeded, match="64 MiB"):
        await contents.stage(too_much())
    assert (await count(mongo, "contents"), await count(mongo, "content_chunks")) == (0, 0)


async def test_content_without_its_head_isnt_there_and_staging_completes_it(
    contents: Contents, mongo: Mongo
) -> None:
    data = pattern(3 * CHUNK_SIZE)
    reference = await contents.stage([data])
    await mongo.collection("contents").delete_many({})
    await mongo.collection("content_chunks").delete_one({"_id": f"{reference.sha256}:1"})
    with pytest.raises(ResourceGone, match="never completely staged"):
        await whole(contents, reference.sha256)
    await contents.stage([data])
    assert await whole(contents, reference.sha256) == data


@pytest.mark.parametrize("chunk", [0, 1, 2])
async def test_a_damaged_chunk_is_never_given_out(
    contents: Contents, mongo: Mongo, chunk: int
) -> None:
    data = pattern(3 * CHUNK_SIZE)
    reference = await contents.stage([data])
    await mongo.collection("content_chunks").update_one(
        {"_id": f"{reference.sha256}:{chunk}"}, {"$set": {"data": Binary(b"other")}}
    )
    given = bytearray()
    with pytest.raises(StateCorrupt, match=f"chunk {chunk}"):
        await read_into(given, contents, reference.sha256)
    assert bytes(given) == data[: chunk * CHUNK_SIZE]


async def test_a_head_that_names_other_bytes_is_reported(contents: Contents, mongo: Mongo) -> None:
    reference = await contents.stage([pattern(CHUNK_SIZE)])
    other = "f" * 64
    for name in ("contents", "content_chunks"):
        collection = mongo.collection(name)
        async for document in collection.find():
            document["_id"] = document["_id"].replace(reference.sha256, other)
            await collection.insert_one(document)
    with pytest.raises(StateCorrupt, match="length or digest"):
        await whole(contents, other)


async def test_a_chunk_with_other_bytes_is_never_completed(
    contents: Contents, mongo: Mongo
) -> None:
    data = pattern(2 * CHUNK_SIZE)
    reference = await contents.stage([data])
    await mongo.collection("contents").delete_many({})
    await mongo.collection("content_chunks").update_one(
        {"_id": f"{reference.sha256}:1"}, {"$set": {"sha256": "0" * 64}}
    )
    with pytest.raises(StateCorrupt, match="other bytes"):
        await contents.stage([data])
    assert await count(mongo, "contents") == 0
