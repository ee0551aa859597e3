"""The final response of a turn: an excerpt in memory, the whole of a large one on the disk."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import IO

from muster.domain.runtime import RESPONSE_EXCERPT_BYTES, FinalResponse
from muster.runtimes.acp import layout

RESPONSE_LIMIT_BYTES = 64 * 1024 * 1024
"""Of one turn's response; what an agent says beyond it is dropped and the turn says so."""


class ResponseBuffer:
    """Collects the response of one turn.

    Args:
        path: The file for a response that is larger than the excerpt.
        reference: How that file is named to readers.
    """

    def __init__(self, path: Path, reference: str) -> None:
        self._path = path
        self._reference = reference
        self._head = b""
        self._length = 0
        self._hash = hashlib.sha256()
        self._file: IO[bytes] | None = None
        self._failed = False
        self.cut = False
        """True if something was dropped at the limit."""

    def add(self, text: str) -> bool:
        """Take a piece; False if it passes the limit and was dropped."""
        piece = text.encode(errors="replace")
        if self.cut or self._length + len(piece) > RESPONSE_LIMIT_BYTES:
            self.cut = True
            return False
        self._length += len(piece)
        self._hash.update(piece)
        if self._file is None and self._length <= RESPONSE_EXCERPT_BYTES:
            self._head += piece
        else:
            self._spill(piece)
        return True

    def finish(self) -> FinalResponse:
        """The response as it travels with the end of its turn; a large one is durable then."""
        kept = self._file is not None and self._seal(self._file)
        return FinalResponse(
            text=self._head.decode(errors="ignore"),
            truncated=self._length > RESPONSE_EXCERPT_BYTES,
            length=self._length,
            sha256=self._hash.hexdigest(),
            artifact_path=self._reference if kept else None,
        )

    def _spill(self, piece: bytes) -> None:
        if self._failed:
            return
        try:
            if self._file is None:
                piece = self._head + piece
                self._head = piece[:RESPONSE_EXCERPT_BYTES]
                self._path.parent.mkdir(mode=0o700, exist_ok=True)
                self._file = self._path.open("wb")
            self._file.write(piece)
        except OSError:
            self._failed = True

    def _seal(self, file: IO[bytes]) -> bool:
        try:
            with file:
                file.flush()
                os.fsync(file.fileno())
            layout.sync_folder(self._path.parent)
        except OSError:
            return False
        return not self._failed
