"""A tree of private files beneath one root: whole or absent, durable once acknowledged.

A write goes to a temporary file in the same folder, which is synced, given its name by rename or
exclusive link, and the folder is synced; only then does the method return. Folders are 0700,
files 0600. No path is followed through a symbolic link. All methods block: call them in a thread.

Paths are relative POSIX strings beneath the root. Every method raises UnsafePath for a path that
leaves the root or passes a symbolic link, StateCorrupt where a file stands in a folder's place,
and StorageUnavailable when the filesystem refuses for now; the same call may then be repeated.
"""

from __future__ import annotations

import errno
import json
import os
import secrets
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from muster.domain.errors import LimitExceeded, ResourceGone, UnsafePath
from muster.domain.faults import fault_point
from muster.stores.files import beneath, calls, limits
from muster.stores.files.failures import coded
from muster.stores.files.folders import Folders
from muster.stores.files.locks import lock_folder, same_folder
from muster.stores.files.removal import (
    discard,
    entry_status,
    names_in,
    remove_entry,
    remove_if_present,
)

_READ_CHUNK = 1 << 20
_REASON_CHARACTERS = 2_000


class PrivateTree:
    """The private files beneath `root`; may be shared by threads and processes.

    Args:
        root: A folder of this user's, made 0700 when missing. When another folder takes its place
            later, every method raises StorageUnavailable.
    """

    def __init__(self, root: Path) -> None:
        self.folders = Folders(root)

    @property
    def root(self) -> Path:
        """The absolute path of the folder all of this stands in."""
        return self.folders.root

    # Reading

    def read(self, path: str, *, limit: int) -> bytes | None:
        """The file's bytes, or None when it is absent.

        What is read may not be on the disk yet if its writer died; `settle` before acknowledging
        anything on its strength. Raises LimitExceeded past `limit` bytes, UnsafePath when it
        isn't a regular file.
        """
        folder, name = beneath.split(path)
        with coded("read", self._where(path)):
            try:
                with self.folders.open(folder) as descriptor:
                    return self._read_entry(descriptor, name, path, limit)
            except FileNotFoundError:
                return None

    def _read_entry(self, folder: int, name: str, path: str, limit: int) -> bytes:
        # O_NONBLOCK: opening a FIFO would wait for a writer.
        file = beneath.open_beneath(folder, name, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY)
        try:
            if not stat.S_ISREG(os.fstat(file).st_mode):
                raise UnsafePath(f"{self._where(path)} isn't a regular file; move it away")
            return self._read_all(file, path, limit)
        finally:
            os.close(file)

    def _read_all(self, file: int, path: str, limit: int) -> bytes:
        parts, length = [], 0
        while part := os.read(file, min(_READ_CHUNK, limit + 1 - length)):
            parts.append(part)
            length += len(part)
            if length > limit:
                raise LimitExceeded(
                    f"{self._where(path)} is larger than the {limit} bytes allowed; "
                    "it wasn't read: set it aside or split it",
                    limit=limit,
                )
        return b"".join(parts)

    def exists(self, path: str) -> bool:
        """Whether a file or folder has this name."""
        folder, name = beneath.split(path)
        with coded("look at", self._where(path)):
            try:
                with self.folders.open(folder) as descriptor:
                    return entry_status(descriptor, name) is not None
            except FileNotFoundError:
                return False

    def list(self, path: str) -> list[str]:
        """The names in a folder in order, without temporary files; empty when it is absent."""
        with coded("list", self._where(path)):
            try:
                with self.folders.open(path) as descriptor:
                    names = names_in(descriptor)
            except FileNotFoundError:
                return []
        return [name for name in names if not name.startswith(beneath.TEMPORARY_PREFIX)]

    # Writing

    def replace(self, path: str, data: bytes, *, limit: int, durable: bool = True) -> None:
        """Give the file the content `data`, whole and durable; folders are made as needed.

        Args:
            path: The file.
            data: All of its new content.
            limit: The most bytes it may have.
            durable: False for what can be made again from something durable, and is, after a
                power cut: nothing is synced then, and such a cut may leave anything under the name.

        Raises LimitExceeded past `limit` bytes, with nothing changed.
        """
        folder, name = beneath.split(path)
        self._check_size(path, data, limit)
        with (
            coded("write", self._where(path)),
            self.folders.open(folder, create=True) as descriptor,
        ):
            temporary = self._write_temporary(descriptor, data, durable=durable)
            try:
                fault_point("files.temporary_written")
                calls.current().rename(descriptor, temporary, name)
            except BaseException:
                discard(descriptor, temporary)
                raise
            fault_point("files.renamed")
            if durable:
                calls.current().fsync(descriptor)

    def create(self, path: str, data: bytes, *, limit: int) -> bool:
        """Write the file unless it exists; False, with nothing changed, when it does.

        Either way the file that is there is durable. Raises LimitExceeded past `limit` bytes.
        """
        folder, name = beneath.split(path)
        self._check_size(path, data, limit)
        with (
            coded("create", self._where(path)),
            self.folders.open(folder, create=True) as descriptor,
        ):
            created = entry_status(descriptor, name) is None and self._create_entry(
                descriptor, name, data
            )
            calls.current().fsync(descriptor)
            return created

    def _create_entry(self, folder: int, name: str, data: bytes) -> bool:
        temporary = self._write_temporary(folder, data)
        try:
            fault_point("files.temporary_written")
            created = self._link(folder, temporary, name)
            fault_point("files.renamed")
            remove_if_present(folder, temporary)
        except BaseException:
            discard(folder, temporary)
            raise
        return created

    def _link(self, folder: int, temporary: str, name: str) -> bool:
        try:
            calls.current().link(folder, temporary, name)
        except FileExistsError:
            # A repeated link, or a network filesystem's, may have met its own first success.
            winner, ours = entry_status(folder, name), entry_status(folder, temporary)
            return winner is not None and ours is not None and os.path.samestat(winner, ours)
        return True

    def _write_temporary(self, folder: int, data: bytes, *, durable: bool = True) -> str:
        """A complete file under a temporary name, synced if durable; gone after any failure."""
        name = f"{beneath.TEMPORARY_PREFIX}{secrets.token_hex(8)}"
        try:
            file = calls.current().create(folder, name)
            try:
                calls.current().write(file, data)
                if durable:
                    calls.current().fsync(file)
            finally:
                os.close(file)
        except BaseException:
            discard(folder, name)
            raise
        return name

    def settle(self, path: str) -> None:
        """Make durable which file has this name, or that none has.

        For a caller that acknowledges what it read: the writer may have died between giving the
        name and syncing the folder.
        """
        folder, _ = beneath.split(path)
        with coded("sync", self._where(path)):
            try:
                with self.folders.open(folder, durable=True) as descriptor:
                    calls.current().fsync(descriptor)
            except FileNotFoundError:
                return  # that the folder is absent was synced on the way

    # Removing

    def remove(self, path: str, *, durable: bool = True) -> bool:
        """Remove a file or symbolic link; False when it was absent.

        Args:
            path: The file.
            durable: False for a caller that syncs the folder, or removes it, before it counts on
                the removal.
        """
        folder, name = beneath.split(path)
        with coded("remove", self._where(path)):
            try:
                with self.folders.open(folder, durable=durable) as descriptor:
                    removed = remove_if_present(descriptor, name)
                    if durable:
                        calls.current().fsync(descriptor)
                    return removed
            except FileNotFoundError:
                return False

    def remove_tree(self, path: str, *, durable: bool = True) -> bool:
        """Remove a folder with all it holds; False when it was absent.

        Symbolic links in it go, what they point at stays. Not atomic: after an interruption the
        same call removes the rest. `durable` as for `remove`.
        """
        folder, name = beneath.split(path)
        with coded("remove", self._where(path)):
            try:
                with self.folders.open(folder, durable=durable) as descriptor:
                    removed = remove_entry(descriptor, name)
                    if durable:
                        calls.current().fsync(descriptor)
            except FileNotFoundError:
                return False
        self.folders.forget(path)
        return removed

    def remove_empty(self, path: str, *, durable: bool = True) -> bool:
        """Remove a folder if nothing is in it; False when it is absent or something is.

        `durable` as for `remove`.
        """
        folder, name = beneath.split(path)
        with coded("remove", self._where(path)):
            try:
                with self.folders.open(folder, durable=durable) as descriptor:
                    calls.current().rmdir(descriptor, name)
                    if durable:
                        calls.current().fsync(descriptor)
            except FileNotFoundError:
                return False
            except OSError as error:
                if error.errno in (errno.ENOTEMPTY, errno.EEXIST):
                    return False
                raise
        self.folders.forget(path)
        return True

    def sweep_temporary(self, path: str, *, older_than: float = 0.0) -> int:
        """Remove the temporary files that dead writers left in a folder; returns how many.

        Without an age only for the holder of the folder's lock: a living writer would lose its
        file. With an age in seconds that no write lasts, for anybody: a frozen writer that goes
        on then fails and tries again.
        """
        with coded("sweep", self._where(path)):
            try:
                with self.folders.open(path) as descriptor:
                    stale = [
                        name
                        for name in names_in(descriptor)
                        if name.startswith(beneath.TEMPORARY_PREFIX)
                        and _is_older(descriptor, name, older_than)
                    ]
                    return sum(remove_if_present(descriptor, name) for name in stale)
            except FileNotFoundError:
                return 0

    def set_aside(self, path: str, reason: str) -> str:
        """Rename a file or folder to `<path>.aside-<n>`, which is returned; nothing is lost.

        `<path>.aside-<n>.reason` says why, in JSON, and is there first: made exclusively, it
        reserves the number. Raises ResourceGone when there is nothing under `path`.
        """
        folder, name = beneath.split(path)
        if not self.exists(path):
            raise ResourceGone(f"{self._where(path)} isn't there; nothing to set aside")
        note = json.dumps(
            {
                "name": name,
                "reason": reason[:_REASON_CHARACTERS],
                "at": datetime.now(UTC).isoformat(),
            },
            indent=2,
        ).encode()
        with (
            coded("set aside", self._where(path)),
            self.folders.open(folder, durable=True) as descriptor,
        ):
            aside = self._reserve_aside(descriptor, path, note)
            new_name = beneath.split(aside)[1]
            try:
                calls.current().rename(descriptor, name, new_name)
            except BaseException:
                if entry_status(descriptor, new_name) is None:
                    discard(descriptor, f"{new_name}.reason")
                raise
            calls.current().fsync(descriptor)
        self.folders.forget(path)
        return aside

    def _reserve_aside(self, folder: int, path: str, note: bytes) -> str:
        number = 1
        while True:
            aside = f"{path}.aside-{number}"
            free = entry_status(folder, beneath.split(aside)[1]) is None
            if free and self.create(f"{aside}.reason", note, limit=limits.ASIDE_REASON):
                return aside
            number += 1

    # Folders

    def make_directory(self, path: str) -> None:
        """Make a folder and those above it, durably; nothing to do when it is there."""
        with coded("make", self._where(path)), self.folders.open(path, create=True):
            return

    @contextmanager
    def lock(self, path: str, *, timeout: float | None = None) -> Iterator[None]:
        """Hold a folder's exclusive lock, against threads and processes; made when missing.

        Args:
            path: The folder; empty for the root.
            timeout: Seconds to wait for another holder; None waits for ever, in this thread.

        Raises StorageUnavailable when the time passed.
        """
        with coded("lock", self._where(path)):
            descriptor = self._open_locked(path, timeout)
        try:
            yield
        finally:
            os.close(descriptor)

    def _open_locked(self, path: str, timeout: float | None) -> int:
        while True:
            with self.folders.open(path, create=True) as descriptor:
                lock_folder(descriptor, self._where(path), timeout)
                # The folder may have been removed, or removed and made anew, while we waited.
                with self.folders.open(path, create=True) as now:
                    if same_folder(descriptor, now):
                        return os.dup(descriptor)

    # Words and sizes

    def _where(self, path: str) -> str:
        return f"{self.root}/{path}" if path else str(self.root)

    def _check_size(self, path: str, data: bytes, limit: int) -> None:
        if len(data) > limit:
            raise LimitExceeded(
                f"{self._where(path)} would have {len(data)} bytes, {limit} are allowed; "
                "nothing was written",
                limit=limit,
                actual=len(data),
            )


def _is_older(folder: int, name: str, seconds: float) -> bool:
    status = entry_status(folder, name)
    return status is not None and time.time() - status.st_mtime >= seconds
