"""What a creation costs beside 10 and beside 10,000 receipts and sessions in its namespace.

    python -m bench creation-growth

Two namespaces on the same servers take turns, one creation at a time, with agents that need no
time. Their receipts, documents and list entries were put there directly. For comparison, one
rewrite of a registry in one JSON file that holds all receipts: a design in which every creation
rewrites it at each of its steps, at least five times.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from bench.common import Figure, latency, write_figures
from bench.measure import Plan
from bench.session import create
from bench.stage import Servers, Stage, open_stage, open_stage_on
from muster.client.requests import create_command
from muster.domain.contract import Contract, parse_time
from muster.domain.creation import (
    CreateCommand,
    CreateSpec,
    CreationReceipt,
    create_answer,
    first_document,
)
from muster.domain.runtime import RuntimeKind, Verifier
from muster.domain.session_document import Broker, SessionDocument, encode
from muster.domain.summaries import summary_key, summary_of
from muster.domain.view import view_of
from muster.runtimes.signing import generate_key
from muster.stores.documents.connection import connect
from muster.stores.documents.names import SESSIONS
from muster.stores.files import paths
from muster.stores.files.private import PrivateTree

SIZES = (10, 10_000)
QUICK_SIZES = (10, 500)
WITHIN = 1.1
"""What a creation beside the larger number may cost of one beside the smaller."""

NAME = "creation"
WARM_UP = 5
REWRITES = 5
_BATCH = 100
_AT = "2026-01-01T00:00:00.000Z"
_REGISTRY_LIMIT = 1 << 30


@dataclass(frozen=True)
class Old:
    """A session that was created earlier, as it is stored."""

    key_digest: str
    session_id: str
    receipt: bytes
    document: bytes
    entry: dict[str, Any]


def old_sessions(namespace: str, cwd: str, number: int) -> Iterator[Old]:
    """Sessions with everything that their creations left: all are made after the first."""
    spec = CreateSpec(cwd=cwd, title="an old one")
    first = create_command(namespace, "old", spec)
    receipt, document = _made_by(first, generate_key().verifier)
    stored = receipt.model_dump_json().encode(), encode(document)
    summary, view = summary_of(document), view_of(document)
    entry = json.dumps({**summary.model_dump(mode="json"), "view": view.model_dump(mode="json")})
    times = {name: parse_time(_AT) for name in ("created_at", "updated_at", "activity_at")}
    for each in range(number):
        command = create_command(namespace, f"old-{each}", spec)

        def renamed(text: str, command: CreateCommand = command) -> str:
            named = text.replace(first.key_digest, command.key_digest)
            return named.replace(first.session_id, command.session_id)

        own = json.loads(renamed(entry))
        yield Old(
            command.key_digest,
            command.session_id,
            renamed(stored[0].decode()).encode(),
            renamed(stored[1].decode()).encode(),
            {"_id": summary_key(namespace, command.session_id), **own, **times},
        )


def _made_by(command: CreateCommand, verifier: Verifier) -> tuple[CreationReceipt, SessionDocument]:
    broker = Broker(
        runtime=RuntimeKind.ACP,
        endpoint_url=f"acp:old/{command.session_id}",
        endpoint_generation=0,
        endpoint_incarnation=f"inc-{command.key_digest}",
        sidecar_verifier=verifier,
    )
    document = first_document(command, broker, _AT)
    receipt = CreationReceipt(
        namespace_id=command.namespace_id,
        key_digest=command.key_digest,
        request_digest=command.request_digest,
        tool=command.spec.kind,
        request=command.spec,
        remote_create_key=command.remote_create_key,
        session_id=command.session_id,
        sidecar_verifier=verifier,
        created_at=_AT,
        answer=create_answer(command, document),
        completed_at=_AT,
    )
    return receipt, document


async def fill(stage: Stage, number: int) -> list[CreationReceipt]:
    """Put the files and the list entries of this many sessions there; returns the receipts."""
    namespace, root = stage.settings.namespace, stage.settings.state_root
    olds = list(old_sessions(namespace, str(stage.folder / "work"), number))
    await asyncio.to_thread(_write_files, root, namespace, olds)
    assert stage.settings.mongo_uri is not None
    async with connect(stage.settings.mongo_uri, stage.settings.mongo_database) as mongo:
        entries = mongo.collection(SESSIONS)
        for first in range(0, number, _BATCH):
            await entries.insert_many([each.entry for each in olds[first : first + _BATCH]])
    return [CreationReceipt.model_validate_json(each.receipt) for each in olds]


def _write_files(root: Path, namespace: str, olds: list[Old]) -> None:
    for each in olds:
        _write(root / paths.creation_receipt(namespace, each.key_digest), each.receipt)
        _write(root / paths.session_document(namespace, each.session_id), each.document)


def _write(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)


@asynccontextmanager
async def open_stages() -> AsyncIterator[tuple[Stage, Stage]]:
    """Two namespaces with a worker each, on the same servers."""
    async with open_stage("instant") as first:
        assert first.settings.mongo_uri is not None
        address = first.temporal.service_client.config.target_host
        servers = Servers(address, first.settings.mongo_uri, first.servers)
        folder = first.folder / "second"
        folder.mkdir()
        async with open_stage_on(servers, folder, "instant") as second:
            yield first, second


class Registry(Contract):
    """All receipts of a namespace in one file."""

    creations: dict[str, CreationReceipt]


class OneFile:
    """A registry that is read, checked and written whole for each change.

    Args:
        tree: Where it stands.
        receipts: What it has already.
    """

    def __init__(self, tree: PrivateTree, receipts: list[CreationReceipt]) -> None:
        self._tree = tree
        self._path = f"registry-{len(receipts)}.json"
        registry = Registry(creations={each.key_digest: each for each in receipts})
        self._write(registry)

    def rewrite_ms(self, name: str) -> float:
        """One more receipt, in milliseconds."""
        command = create_command("bench", name, CreateSpec(cwd="/srv/work"))
        receipt, _ = _made_by(command, generate_key().verifier)
        began = time.perf_counter()
        data = self._tree.read(self._path, limit=_REGISTRY_LIMIT)
        assert data is not None
        known = Registry.model_validate_json(data)
        self._write(Registry(creations={**known.creations, receipt.key_digest: receipt}))
        return 1e3 * (time.perf_counter() - began)

    def _write(self, registry: Registry) -> None:
        data = json.dumps(registry.model_dump(mode="json")).encode()
        self._tree.replace(self._path, data, limit=_REGISTRY_LIMIT)


async def growth(sizes: tuple[int, int], operations: int) -> list[Figure]:
    """A creation beside each number of sessions, and one rewrite of a registry of each size."""
    small, large = sizes
    async with open_stages() as stages:
        receipts = []
        for stage, number in zip(stages, sizes, strict=True):
            receipts.append(await fill(stage, number))
            for _ in range(WARM_UP):
                await create(stage)
        took: tuple[list[float], list[float]] = ([], [])
        for _ in range(operations):
            for stage, found in zip(stages, took, strict=True):
                created = await create(stage)
                found.append(1e3 * (created.ended - created.began))
        tree = PrivateTree(stages[0].folder / "registries")
        rewrites = await asyncio.to_thread(_rewrites, tree, receipts, min(operations, REWRITES))
    note = f"floor: beside {small:,} of each"
    return [
        latency(
            f"{NAME}: beside {large:,} receipts and sessions",
            took[1],
            took[0],
            target=WITHIN,
            note=note,
        ),
        replace(
            latency(
                f"{NAME}, for comparison: one rewrite of a registry with {large:,} receipts",
                rewrites[1],
                rewrites[0],
            ),
            note=f"floor: with {small:,}; each creation would take at least five",
        ),
    ]


def _rewrites(
    tree: PrivateTree, receipts: list[list[CreationReceipt]], operations: int
) -> tuple[list[float], list[float]]:
    registries = [OneFile(tree, each) for each in receipts]
    took: tuple[list[float], list[float]] = ([], [])
    for number in range(operations):
        for registry, found in zip(registries, took, strict=True):
            found.append(registry.rewrite_ms(f"new-{number}"))
    return took


async def run(plan: Plan) -> list[Figure]:
    """The figures of this bench; a single run is a quick one, beside fewer sessions."""
    return await growth(SIZES if plan.runs > 1 else QUICK_SIZES, plan.operations)


def main() -> None:
    """Measure, keep the figures and print them."""
    parser = argparse.ArgumentParser(description="What a creation costs as its namespace grows.")
    parser.add_argument("--operations", type=int, default=60)
    parser.add_argument("--sizes", type=int, nargs=2, default=SIZES, metavar="N")
    options = parser.parse_args()
    small, large = options.sizes
    figures = asyncio.run(growth((small, large), options.operations))
    print(write_figures("creation-growth", figures).read_text())


if __name__ == "__main__":
    main()
