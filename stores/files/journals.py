"""The journals of all namespaces beneath one state root."""

from __future__ import annotations

import threading

from muster.stores.files.journal import Journal
from muster.stores.files.paths import namespace_folder
from muster.stores.files.private import PrivateTree


class Journals:
    """Opens each namespace's journal once; may be shared by threads.

    Args:
        tree: The state root.
    """

    def __init__(self, tree: PrivateTree) -> None:
        self._tree = tree
        self._opened: dict[str, Journal] = {}
        self._guard = threading.Lock()

    def of(self, namespace: str) -> Journal:
        """The journal of a namespace; its folder is made by the first append."""
        with self._guard:
            journal = self._opened.get(namespace)
            if journal is None:
                journal = Journal(self._tree, f"{namespace_folder(namespace)}/events")
                self._opened[namespace] = journal
            return journal

    def close(self) -> None:
        """Let go of every index's file when no thread uses it; an append opens it again."""
        with self._guard:
            for journal in self._opened.values():
                journal.close()
