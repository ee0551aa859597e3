"""What compaction takes out of session documents: whole records, and the receipts that stay.

Each compaction adds one file of records and one of receipts, named by the revision that lost them
and by their content, before the document shrinks. Nothing is ever rewritten, so the cost doesn't
grow with the archive; a compaction that is repeated writes the same files again.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable

from pydantic import TypeAdapter, ValidationError

from muster.domain.canonical import sha256_hex
from muster.domain.contracts import SessionRef
from muster.domain.errors import StateCorrupt
from muster.domain.history import SessionHistory
from muster.domain.receipts import ArchivedReceipt, receipts_of
from muster.stores.files import limits, paths
from muster.stores.files.private import PrivateTree

_RECEIPTS = TypeAdapter(dict[str, ArchivedReceipt])
_REMEMBERED_SESSIONS = 256


class ArchiveStore:
    """The archives of all sessions beneath one state root; may be shared by threads.

    Args:
        tree: The state root.
    """

    def __init__(self, tree: PrivateTree) -> None:
        self._tree = tree
        self._indexes: dict[str, _ReceiptIndex] = {}
        self._guard = threading.Lock()

    def file(self, removed: SessionHistory, revision: int) -> None:
        """Put away what the document's next revision won't hold any more."""
        of_session = (removed.namespace_id, removed.session_id, removed.endpoint_incarnation)
        data = removed.model_dump_json().encode()
        # A commit that fails after this may come again with another part of the same revision.
        name = f"{revision:020d}-{sha256_hex(data)[:16]}.json"
        receipts = receipts_of(removed)
        if receipts:
            self._tree.replace(
                f"{paths.receipts_folder(*of_session)}/{name}",
                _RECEIPTS.dump_json(receipts),
                limit=limits.HISTORY_ARCHIVE,
            )
        self._tree.replace(
            f"{paths.history_folder(*of_session)}/{name}", data, limit=limits.HISTORY_ARCHIVE
        )

    def receipt(self, ref: SessionRef, digest: str) -> ArchivedReceipt | None:
        """The receipt filed under a command's digest, if its request has left the document.

        Raises StateCorrupt if a file that may hold it is lost beyond what its records can mend.
        """
        folder = paths.receipts_folder(ref.namespace_id, ref.session_id, ref.incarnation)
        names = self._tree.list(folder)
        if not names:
            return None
        found = self._index(folder).find(digest, names, lambda name: self._receipts(ref, name))
        return self._receipts(ref, found).get(digest) if found else None

    def segments(self, ref: SessionRef) -> list[str]:
        """The names of the record files, oldest first."""
        return [
            name
            for name in self._tree.list(
                paths.history_folder(ref.namespace_id, ref.session_id, ref.incarnation)
            )
            if name.endswith(".json")
        ]

    def incarnations(self, namespace: str, session_id: str) -> list[str]:
        """The incarnations that have an archive."""
        return self._tree.list(f"{paths.session_folder(namespace, session_id)}/history")

    def read(self, ref: SessionRef, name: str) -> SessionHistory | None:
        """One record file, or None if it isn't there.

        Raises StateCorrupt if it can't be read; it stays where it is.
        """
        folder = paths.history_folder(ref.namespace_id, ref.session_id, ref.incarnation)
        data = self._tree.read(f"{folder}/{name}", limit=limits.HISTORY_ARCHIVE)
        try:
            return SessionHistory.model_validate_json(data) if data is not None else None
        except ValidationError as error:
            raise StateCorrupt(
                f"{folder}/{name} isn't readable records of session {ref.session_id}; "
                "bring it back from a backup, or move it away to do without them",
                path=f"{folder}/{name}",
            ) from error

    def _index(self, folder: str) -> _ReceiptIndex:
        with self._guard:
            index = self._indexes.pop(folder, None) or _ReceiptIndex()
            self._indexes[folder] = index
            while len(self._indexes) > _REMEMBERED_SESSIONS:
                self._indexes.pop(next(iter(self._indexes)))
            return index

    def _receipts(self, ref: SessionRef, name: str) -> dict[str, ArchivedReceipt]:
        """The receipts of one file; a damaged one is made again from its records."""
        folder = paths.receipts_folder(ref.namespace_id, ref.session_id, ref.incarnation)
        path = f"{folder}/{name}"
        data = self._tree.read(path, limit=limits.HISTORY_ARCHIVE)
        if data is None:
            return {}
        try:
            return _RECEIPTS.validate_json(data)
        except ValidationError:
            removed = self.read(ref, name)
        if removed is None:
            raise StateCorrupt(
                f"{path} isn't readable receipts and its records are gone; "
                "bring it back from a backup, or move it away to do without them",
                path=path,
            )
        receipts = receipts_of(removed)
        self._tree.set_aside(path, "it isn't readable receipts; they were made again")
        self._tree.replace(path, _RECEIPTS.dump_json(receipts), limit=limits.HISTORY_ARCHIVE)
        return receipts


class _ReceiptIndex:
    """Which of a session's receipt files has a digest: most commands ask for one that none has."""

    def __init__(self) -> None:
        self._file_of: dict[bytes, str] = {}
        self._read: set[str] = set()
        self._guard = threading.Lock()

    def find(
        self, digest: str, names: list[str], read: Callable[[str], Iterable[str]]
    ) -> str | None:
        with self._guard:
            for name in names:
                if name not in self._read and name.endswith(".json"):
                    for key in read(name):
                        self._file_of[bytes.fromhex(key)] = name
                    self._read.add(name)
            return self._file_of.get(bytes.fromhex(digest))
