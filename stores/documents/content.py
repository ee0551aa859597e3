"""Large content by its sha256: staged in chunks, usable once its head is there.

The chunks' ids follow from the content, so staging again writes nothing new. The head is written
last, after every chunk was found at the server with the length and sha256 it must have: what has
a head is complete.
"""

from __future__ import annotations

import asyncio
import hashlib
import tempfile
from collections.abc import AsyncIterator, Iterable, Iterator
from typing import IO

from bson.binary import Binary
from pydantic import Field
from pymongo.errors import BulkWriteError, DuplicateKeyError

from muster.domain.canonical import sha256_hex
from muster.domain.contract import Contract
from muster.domain.errors import LimitExceeded, ResourceGone, StateCorrupt
from muster.domain.identifiers import Digest
from muster.stores.documents.connection import Document, Mongo
from muster.stores.documents.failures import only_duplicates
from muster.stores.documents.names import CONTENT_CHUNKS, CONTENTS

MIB = 1024 * 1024
CONTENT_LIMIT = 64 * MIB
CHUNK_SIZE = MIB
_CHUNKS_AT_ONCE = 8
_HELD_IN_MEMORY = 4 * MIB


class ContentRef(Contract):
    """Where large content is: its sha256 is its name."""

    sha256: Digest
    length: int = Field(ge=0, le=CONTENT_LIMIT)


class Contents:
    """The collections `contents` and `content_chunks`. Every method may be repeated.

    All methods raise MongoUnavailable when there is no answer within the connection's limits.
    """

    def __init__(self, mongo: Mongo) -> None:
        self._mongo = mongo
        self._heads = mongo.collection(CONTENTS)
        self._chunks = mongo.collection(CONTENT_CHUNKS)

    async def stage(self, data: Iterable[bytes] | AsyncIterator[bytes]) -> ContentRef:
        """Store content; when this returns it is complete at the server.

        Args:
            data: The content in pieces of any size, 64 MiB in all.

        Raises:
            LimitExceeded: It is longer; nothing was written.
            StateCorrupt: A chunk of this content is there with other bytes.
        """
        with tempfile.SpooledTemporaryFile(max_size=_HELD_IN_MEMORY) as spool:
            reference = await _spool(data, spool)
            if not await self._complete(reference):
                await self._write(reference, spool)
        return reference

    async def read(self, sha256: str) -> AsyncIterator[bytes]:
        """The content's bytes in order, each piece checked before it is given out.

        Raises:
            ResourceGone: There is no complete content of this name.
            StateCorrupt: What is there isn't what was staged.
        """
        with self._mongo.coded(f"read the head of content {sha256}"):
            head = await self._heads.find_one({"_id": sha256})
        if head is None:
            raise ResourceGone(
                f"content {sha256} isn't at {self._mongo.where}: it was never completely staged"
            )
        whole = hashlib.sha256()
        length = 0
        for index in range(_count(head["length"])):
            data = await self._chunk(sha256, index)
            whole.update(data)
            length += len(data)
            yield data
        if length != head["length"] or whole.hexdigest() != sha256:
            raise self._corrupt(sha256, "the whole has another length or digest")

    async def _complete(self, reference: ContentRef) -> bool:
        with self._mongo.coded(f"look for content {reference.sha256}"):
            head = await self._heads.find_one({"_id": reference.sha256})
        return head is not None

    async def _write(self, reference: ContentRef, spool: IO[bytes]) -> None:
        expected: dict[str, tuple[int, str]] = {}
        for batch in _batches(reference, spool):
            expected |= {each["_id"]: (each["length"], each["sha256"]) for each in batch}
            await self._insert(batch)
        await self._verify(reference, expected)
        head = {
            "_id": reference.sha256,
            "length": reference.length,
            "chunks": len(expected),
            "chunk_size": CHUNK_SIZE,
        }
        with self._mongo.coded(f"complete content {reference.sha256}"):
            try:
                await self._heads.insert_one(head)
            except DuplicateKeyError:
                return  # Somebody staged the same content meanwhile.

    async def _insert(self, batch: list[Document]) -> None:
        with self._mongo.coded(f"stage chunk {batch[0]['_id']} and those after it"):
            try:
                await self._chunks.insert_many(batch, ordered=False)
            except BulkWriteError as error:
                if not only_duplicates(error):
                    raise

    async def _verify(self, reference: ContentRef, expected: dict[str, tuple[int, str]]) -> None:
        wanted = {"_id": {"$in": list(expected)}}
        with self._mongo.coded(f"confirm content {reference.sha256}"):
            found = await self._chunks.find(wanted, {"length": 1, "sha256": 1}).to_list()
        if {each["_id"]: (each["length"], each["sha256"]) for each in found} != expected:
            raise self._corrupt(reference.sha256, "a chunk is missing or has other bytes")

    async def _chunk(self, sha256: str, index: int) -> bytes:
        with self._mongo.coded(f"read chunk {index} of content {sha256}"):
            found = await self._chunks.find_one({"_id": _chunk_id(sha256, index)})
        data = bytes(found["data"]) if found else b""
        if found is None or found["sha256"] != sha256_hex(data):
            raise self._corrupt(sha256, f"chunk {index} is missing or has other bytes")
        return data

    def _corrupt(self, sha256: str, what: str) -> StateCorrupt:
        return StateCorrupt(
            f"content {sha256} at {self._mongo.where} is damaged: {what}; remove it from "
            f"{CONTENTS} and {CONTENT_CHUNKS} and stage it again",
            sha256=sha256,
        )


async def _spool(data: Iterable[bytes] | AsyncIterator[bytes], spool: IO[bytes]) -> ContentRef:
    """Put the whole aside first: its name is known, and its length allowed, before any write."""
    digest = hashlib.sha256()
    length = 0
    async for piece in _pieces(data):
        length += len(piece)
        if length > CONTENT_LIMIT:
            raise LimitExceeded(
                f"the content is longer than {CONTENT_LIMIT // MIB} MiB; nothing was stored"
            )
        digest.update(piece)
        await asyncio.to_thread(spool.write, piece)
    return ContentRef(sha256=digest.hexdigest(), length=length)


async def _pieces(data: Iterable[bytes] | AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    if isinstance(data, AsyncIterator):
        async for piece in data:
            yield piece
    else:
        for piece in data:
            yield piece


def _batches(reference: ContentRef, spool: IO[bytes]) -> Iterator[list[Document]]:
    spool.seek(0)
    count = _count(reference.length)
    for start in range(0, count, _CHUNKS_AT_ONCE):
        indexes = range(start, min(start + _CHUNKS_AT_ONCE, count))
        yield [_chunk_document(reference, index, spool.read(CHUNK_SIZE)) for index in indexes]


def _chunk_document(reference: ContentRef, index: int, data: bytes) -> Document:
    return {
        "_id": _chunk_id(reference.sha256, index),
        "length": len(data),
        "sha256": sha256_hex(data),
        "data": Binary(data),
    }


def _chunk_id(sha256: str, index: int) -> str:
    return f"{sha256}:{index}"


def _count(length: int) -> int:
    return -(-length // CHUNK_SIZE)
