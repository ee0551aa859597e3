"""Folders beneath a root: opened without following a link, made durably, checked to be the same."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from muster.stores.files import beneath, calls
from muster.stores.files.failures import coded
from muster.stores.files.removal import entry_status
from muster.stores.files.roots import Identity, open_root, prepare_root

_DURABLE_KEPT = 16_384


class Folders:
    """Opens and makes the folders beneath `root`, which is made 0700 when missing.

    A folder's name is durable once its parent was synced after it was made. Its maker may have
    died before that, so the first time a folder is met here, its parent is synced again, and so on
    up to one that was met before.
    """

    def __init__(self, root: Path) -> None:
        self.root = root.absolute()
        self._durable: set[tuple[str, Identity]] = set()
        with coded("prepare", str(self.root)):
            self._identity = prepare_root(self.root)

    @contextmanager
    def open(self, path: str, *, create: bool = False, durable: bool = False) -> Iterator[int]:
        """A descriptor of the folder, for as long as the context runs; empty for the root.

        With `durable` its name and those above it are on the disk; with `create` it is also made
        when missing. Raises FileNotFoundError when it is absent (that is durable then too), other
        OSErrors uncoded, UnsafePath, and StorageUnavailable when the root was replaced.
        """
        beneath.components(path)
        root = open_root(self.root, self._identity)
        try:
            if create or durable:
                descriptor = self._open_durable(root, path, create)
            else:
                descriptor = beneath.open_folder(root, path)
        finally:
            os.close(root)
        try:
            yield descriptor
        finally:
            os.close(descriptor)

    def forget(self, path: str) -> None:
        """Remember no longer that this folder and those in it are durable: they were moved."""
        self._durable = {
            key for key in self._durable if key[0] != path and not key[0].startswith(f"{path}/")
        }

    def _open_durable(self, root: int, path: str, create: bool) -> int:
        with contextlib.suppress(FileNotFoundError):
            descriptor = beneath.open_folder(root, path)
            if not path or self._key(path, descriptor) in self._durable:
                return descriptor
            os.close(descriptor)
        at, walked = os.dup(root), ""
        for name in beneath.components(path):
            walked = f"{walked}/{name}" if walked else name
            try:
                step = self._step(at, name, walked, create)
            finally:
                os.close(at)
            at = step
        return at

    def _step(self, parent: int, name: str, path: str, create: bool) -> int:
        """One folder further down; whether it is there is durable afterwards."""
        with contextlib.suppress(FileNotFoundError):
            known = beneath.open_folder(parent, name)
            if self._key(path, known) in self._durable:
                return known
            os.close(known)
        if create and entry_status(parent, name) is None:
            with contextlib.suppress(FileExistsError):  # another writer was faster
                calls.current().mkdir(parent, name)
        calls.current().fsync(parent)
        found = beneath.open_folder(parent, name)
        self._remember(path, found)
        return found

    def _remember(self, path: str, descriptor: int) -> None:
        if len(self._durable) >= _DURABLE_KEPT:
            self._durable.clear()
        self._durable.add(self._key(path, descriptor))

    @staticmethod
    def _key(path: str, descriptor: int) -> tuple[str, Identity]:
        found = os.fstat(descriptor)
        return path, (found.st_dev, found.st_ino)
