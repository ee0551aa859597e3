"""What the sidecar was told, by key: the reason a repeated command has no second effect.

A command's receipt is on the disk before its effect begins. The file outlives the sidecar, so
that a caller who lost its answer can still hear it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from muster.domain.canonical import canonical_digest
from muster.domain.errors import IdempotencyConflict, StorageUnavailable
from muster.runtimes.acp import layout

Receipt = dict[str, Any]


def command_digest(message: Mapping[str, Any]) -> str:
    """What makes two commands under one key the same: everything but the key."""
    return canonical_digest({name: value for name, value in message.items() if name != "key"})


class CommandLog:
    """The receipts of one launch."""

    def __init__(self, folder: Path) -> None:
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        self._descriptor = os.open(folder / layout.COMMANDS, flags, 0o600)
        self._end = 0
        self._known: dict[str, tuple[str, Receipt]] = {}

    def find(self, key: str, digest: str) -> Receipt | None:
        """The first answer to `key`; IdempotencyConflict if it was for another request."""
        return _same(key, digest, self._known.get(key))

    def record(self, key: str, verb: str, digest: str, receipt: Receipt) -> None:
        """Make the receipt durable; StorageUnavailable if the disk refuses, nothing is kept."""
        entry = {"key": key, "verb": verb, "digest": digest, "receipt": receipt}
        line = json.dumps(entry, separators=(",", ":")).encode() + b"\n"
        try:
            os.ftruncate(self._descriptor, self._end)
            if os.pwrite(self._descriptor, line, self._end) != len(line):
                raise OSError("short write")
            os.fdatasync(self._descriptor)
        except OSError as error:
            raise StorageUnavailable(
                f"the command log took no entry ({error}): free space, then send {key} again"
            ) from error
        self._end += len(line)
        self._known[key] = (digest, receipt)


def recorded_receipt(folder: Path, key: str, digest: str) -> Receipt | None:
    """The answer to `key` in the log of a launch whose sidecar is gone."""
    try:
        lines = (folder / layout.COMMANDS).read_bytes().splitlines(keepends=True)
    except FileNotFoundError:
        return None
    entries = (json.loads(line) for line in lines if line.endswith(b"\n"))
    found = next((entry for entry in entries if entry["key"] == key), None)
    return _same(key, digest, (found["digest"], found["receipt"]) if found else None)


def _same(key: str, digest: str, known: tuple[str, Receipt] | None) -> Receipt | None:
    if known is None:
        return None
    if known[0] != digest:
        raise IdempotencyConflict(f"key {key} was used before for another command; use a new key")
    return known[1]
