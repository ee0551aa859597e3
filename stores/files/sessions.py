"""Session documents on disk: read whole and valid, changed one commit at a time.

A commit holds the session folder's lock from the read to the rename, applies a pure transition,
validates the whole post-image and writes it only if it differs. A document that breaks a rule is
set aside and reported, never overwritten.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from muster.domain.canonical import sha256_hex
from muster.domain.changes import Change, Outcome
from muster.domain.compaction import compact_for
from muster.domain.contracts import SessionRef
from muster.domain.errors import (
    EndpointStale,
    LimitExceeded,
    ResourceGone,
    RevisionConflict,
    StateCorrupt,
    UnsafePath,
)
from muster.domain.faults import fault_point
from muster.domain.history import whole_history
from muster.domain.identifiers import is_session_id
from muster.domain.receipts import KeyedChange, archived_answer, filed_under
from muster.domain.session_document import SessionDocument, encode
from muster.domain.session_rules import check_document, decode_document
from muster.domain.transitions import apply
from muster.stores.files import limits, paths
from muster.stores.files.archive import ArchiveStore
from muster.stores.files.private import PrivateTree

LOCK_SECONDS = 8.0
"""Longer than any commit takes; shorter than the activity that waits for it."""

PARSED_DOCUMENTS = 256
"""How many parsed documents a process keeps."""

UNREADABLE = (StateCorrupt, LimitExceeded, UnsafePath)
"""What a document is set aside for: it breaks a rule, is too large, or is no file at all."""


@dataclass(frozen=True)
class Committed:
    """The document as it is on disk, and the change's outcome if it was applied."""

    document: SessionDocument
    outcome: Outcome | None


class SessionStore:
    """The session documents beneath one state root.

    Args:
        tree: The state root.
        archive: Where compaction puts what leaves a document.
    """

    def __init__(self, tree: PrivateTree, archive: ArchiveStore) -> None:
        self._tree = tree
        self._archive = archive
        self._parsed: dict[str, tuple[str, SessionDocument]] = {}

    def read(self, namespace: str, session_id: str) -> SessionDocument | None:
        """The valid document, or None if there is none.

        Raises StateCorrupt if it breaks a rule; it is set aside under a new name first.
        """
        try:
            return self._decoded(namespace, session_id)
        except UNREADABLE:
            # Looked at again under the lock: a repair may have put a good one there meanwhile.
            with self._lock(namespace, session_id):
                return self._read_locked(namespace, session_id)

    def _read_locked(self, namespace: str, session_id: str) -> SessionDocument | None:
        """`read` for who holds the lock."""
        try:
            return self._decoded(namespace, session_id)
        except UNREADABLE as error:
            path = paths.session_document(namespace, session_id)
            aside = self._tree.set_aside(path, error.message)
            raise StateCorrupt(
                f"{error.message}; the file is kept as {aside}, "
                f"run `muster session repair {session_id}`",
                **{**error.details, "aside": aside},
            ) from error

    def _decoded(self, namespace: str, session_id: str) -> SessionDocument | None:
        path = paths.session_document(namespace, session_id)
        data = self._tree.read(path, limit=limits.SESSION_DOCUMENT)
        if data is None:
            self._parsed.pop(path, None)
            return None
        digest = sha256_hex(data)
        known = self._parsed.get(path)
        if known is not None and known[0] == digest:
            return known[1]
        document = decode_document(data, namespace, session_id)
        self._remember(path, digest, document)
        return document

    def find(self, namespace: str, session_id: str) -> SessionDocument | None:
        """The valid document, or None if the session was closed or never was.

        Raises StateCorrupt if it breaks a rule, or was set aside and isn't repaired yet.
        """
        return self._unless_aside(namespace, session_id, self.read(namespace, session_id))

    def session_ids(self, namespace: str) -> list[str]:
        """The ids of the namespace's sessions that have a folder, in order."""
        names = self._tree.list(paths.sessions_folder(namespace))
        return [name for name in names if is_session_id(name)]

    def require(self, ref: SessionRef) -> SessionDocument:
        """The document of this incarnation.

        Raises ResourceGone if there is none, EndpointStale if another incarnation lives,
        StateCorrupt if it was set aside and isn't repaired yet.
        """
        return self._living(ref, self.read(ref.namespace_id, ref.session_id))

    def _living(self, ref: SessionRef, found: SessionDocument | None) -> SessionDocument:
        document = self._unless_aside(ref.namespace_id, ref.session_id, found)
        if document is None:
            raise ResourceGone(f"session {ref.session_id} has no document; it was closed")
        living = document.canonical.session.broker.endpoint_incarnation
        if living != ref.incarnation:
            raise EndpointStale(
                f"session {ref.session_id} lives as {living}, not as {ref.incarnation}",
                incarnation=living,
            )
        return document

    def _unless_aside(
        self, namespace: str, session_id: str, found: SessionDocument | None
    ) -> SessionDocument | None:
        """A document that was set aside isn't one that never was."""
        aside = self.set_aside_files(namespace, session_id) if found is None else []
        if aside:
            raise StateCorrupt(
                f"the document of session {session_id} was set aside as {aside[-1]}; "
                f"run `muster session repair {session_id}`",
                aside=aside[-1],
            )
        return found

    def set_aside_files(self, namespace: str, session_id: str) -> list[str]:
        """The documents of a session that were set aside, oldest first."""
        name = paths.session_document(namespace, session_id).rsplit("/", 1)[1]
        return [
            each
            for each in self._tree.list(paths.session_folder(namespace, session_id))
            if each.startswith(f"{name}.aside-") and not each.endswith(".reason")
        ]

    def restore(self, document: SessionDocument) -> None:
        """Write a rebuilt document where there is none.

        Raises:
            RevisionConflict: There is a document meanwhile; it stays.
        """
        with self._lock(document.namespace_id, document.session_id):
            known = self._read_locked(document.namespace_id, document.session_id)
            if known is not None:
                raise RevisionConflict(
                    f"session {document.session_id} has a document again",
                    actual_revision=known.revision,
                )
            check_document(document)
            self._write(document, encode(document))

    def create(
        self,
        document: SessionDocument,
        may_replace: Callable[[str], bool] = lambda incarnation: False,
    ) -> SessionDocument:
        """Write a session's first document, or adopt the one that this creation already wrote.

        Args:
            document: At revision 1.
            may_replace: Asked under the lock about another incarnation whose document is there.

        Returns:
            The document on disk: this one, or a later revision of the same creation.

        Raises:
            EndpointStale: Another incarnation's document is in the way.
        """
        namespace, session_id = document.namespace_id, document.session_id
        with self._lock(namespace, session_id):
            known = self._unless_aside(
                namespace, session_id, self._read_locked(namespace, session_id)
            )
            if known is not None:
                living = known.canonical.session.broker.endpoint_incarnation
                if living == document.canonical.session.broker.endpoint_incarnation:
                    self._tree.settle(paths.session_document(namespace, session_id))
                    return known
                if not may_replace(living):
                    raise EndpointStale(
                        f"session {session_id} already lives as {living}; close it first",
                        incarnation=living,
                    )
            check_document(document)
            self._write(document, encode(document))
        fault_point("creation.document_written")
        return document

    def commit(
        self,
        ref: SessionRef,
        expected_revision: int,
        change: Change,
        at: str,
        delivered: str | None = None,
    ) -> Committed:
        """Apply one change if the document has the expected revision.

        Args:
            ref: The session.
            expected_revision: The revision that the change was decided on.
            change: What is to be done.
            at: When, as a timestamp.
            delivered: A turn whose receipt may be on record since: the next revision will do then.

        Returns:
            The outcome with the document after the change; without an outcome and with the
            document as it is if its revision is another.

        Raises:
            MusterError: The transition's refusal, or as `require`; nothing changed.
        """
        with self._lock(ref.namespace_id, ref.session_id):
            before = self._living(ref, self._read_locked(ref.namespace_id, ref.session_id))
            outcome: Outcome | None = None
            after = before
            if _is_expected(before, expected_revision, delivered):
                after, outcome = self._apply(before, ref, change, at)
            if after is before:
                # Its writer may have died before the name was durable, and this answers for it.
                self._tree.settle(paths.session_document(ref.namespace_id, ref.session_id))
            else:
                after = self._write_compacted(change, after, at)
        fault_point("session.committed")
        return Committed(after, outcome)

    def while_current(self, ref: SessionRef, use: Callable[[SessionDocument], object]) -> None:
        """Call `use` with the document as it is, while nobody can change or remove it.

        Raises as `require`, without calling it.
        """
        with self._lock(ref.namespace_id, ref.session_id):
            use(self._living(ref, self._read_locked(ref.namespace_id, ref.session_id)))

    def _apply(
        self, before: SessionDocument, ref: SessionRef, change: Change, at: str
    ) -> tuple[SessionDocument, Outcome]:
        archived = self._archived_outcome(ref, change)
        if archived is not None:
            return before, archived
        return apply(before, change, at)

    def _write_compacted(self, change: Change, after: SessionDocument, at: str) -> SessionDocument:
        """Put away what is too much, and write the rest; returns what was written."""
        data = encode(after)
        compacted = compact_for(change, after, at, size=len(data))
        document = compacted.document
        check_document(document)
        if not compacted.removed.is_empty:
            self._archive.file(compacted.removed, after.revision)
            data = encode(document)
        self._write(document, data)
        return document

    def _archived_outcome(self, ref: SessionRef, change: Change) -> Outcome | None:
        """The first answer to a command whose request has left the document."""
        digest = filed_under(change)
        receipt = self._archive.receipt(ref, digest) if digest is not None else None
        if receipt is None or not isinstance(change, KeyedChange):
            return None
        return archived_answer(receipt, change)

    def remove(
        self,
        ref: SessionRef,
        launch: str = "",
        *,
        keep_history: bool = False,
        is_done: Callable[[], bool] = lambda: False,
        done: Callable[[], None] = lambda: None,
    ) -> bool:
        """Remove what this incarnation left in the session's folder, its document last.

        What another incarnation has put there stays: it may be starting, or living already when
        a late attempt comes here, and an earlier one may have been told to keep its history. May
        be repeated: it removes what an interrupted call left.

        Args:
            ref: The incarnation.
            launch: The folder of its launch beneath the state root, if it has one.
            keep_history: File what the document holds with its archive, and keep that.
            is_done: Asked under the lock; True if it was removed before.
            done: Called under the lock once everything is removed.

        Returns:
            False if `is_done` said so: nothing was touched then.

        Raises:
            EndpointStale: Another incarnation's document stands there; nothing is removed then.
            StateCorrupt: The document was set aside and isn't repaired; nothing is removed then.
        """
        namespace, session_id = ref.namespace_id, ref.session_id
        folder, path = paths.session_folder(namespace, session_id), _document(ref)
        with self._lock(namespace, session_id):
            if is_done():
                self._tree.remove_empty(folder)  # taking the lock made it again
                return False
            known = self._unless_aside(
                namespace, session_id, self._read_locked(namespace, session_id)
            )
            if known is not None:
                self._living(ref, known)
                if keep_history:
                    self._archive.file(whole_history(known), known.revision)
            self._remove_beside(ref, launch, keep_history=keep_history)
            self._parsed.pop(path, None)
            self._tree.remove(path, durable=False)
            fault_point("close.document_removed")
            self._tree.sweep_temporary(folder)
            if not self._tree.remove_empty(folder):
                self._tree.settle(path)
            done()
        return True

    def _remove_beside(self, ref: SessionRef, launch: str, *, keep_history: bool) -> None:
        """Everything of the incarnation but its document and a history to be kept.

        Durable where it leaves a folder that stays; the rest becomes so with the session's folder.
        """
        tree, folder = self._tree, paths.session_folder(ref.namespace_id, ref.session_id)
        history = paths.history_folder(ref.namespace_id, ref.session_id, ref.incarnation)
        if launch:
            tree.remove_tree(launch, durable=False)
            fault_point("close.part_removed")
        names = tree.list(folder)
        for name in names:
            if name not in {paths.DOCUMENT, paths.RUNTIME, paths.HISTORY}:
                tree.remove_tree(f"{folder}/{name}", durable=False)
                fault_point("close.part_removed")
        if paths.HISTORY in names and keep_history:
            tree.sweep_temporary(history)
        elif paths.HISTORY in names:
            tree.remove_tree(history, durable=False)
        for shared, own in ((paths.RUNTIME, launch), (paths.HISTORY, history)):
            stays = shared in names and not tree.remove_empty(f"{folder}/{shared}", durable=False)
            if stays and own:
                tree.settle(own)

    def _write(self, document: SessionDocument, data: bytes) -> None:
        path = paths.session_document(document.namespace_id, document.session_id)
        self._tree.replace(path, data, limit=limits.SESSION_DOCUMENT)
        self._remember(path, sha256_hex(data), document)

    def _remember(self, path: str, digest: str, document: SessionDocument) -> None:
        """Keep what was parsed or written: the same bytes needn't be parsed and checked again."""
        self._parsed.pop(path, None)
        self._parsed[path] = (digest, document)
        while len(self._parsed) > PARSED_DOCUMENTS:
            self._parsed.pop(next(iter(self._parsed)))

    @contextmanager
    def _lock(self, namespace: str, session_id: str) -> Iterator[None]:
        folder = paths.session_folder(namespace, session_id)
        with self._tree.lock(folder, timeout=LOCK_SECONDS):
            try:
                yield
            except ResourceGone:
                self._tree.remove_empty(folder)  # taking the lock made it
                raise


def _is_expected(document: SessionDocument, revision: int, delivered: str | None) -> bool:
    if document.revision == revision or delivered is None:
        return document.revision == revision
    turn = document.canonical.turns.get(delivered)
    recorded = turn is not None and bool(turn.delivery.prompt_acknowledged)
    return recorded and document.revision == revision + 1


def _document(ref: SessionRef) -> str:
    return paths.session_document(ref.namespace_id, ref.session_id)
