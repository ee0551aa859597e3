"""Creation receipts, tombstones and private keys: what outlives Temporal's retention."""

from __future__ import annotations

from typing import TypeVar

from pydantic import ValidationError

from muster.domain.closing import Tombstone
from muster.domain.contract import Contract
from muster.domain.creation import CreationReceipt
from muster.domain.errors import StateCorrupt
from muster.stores.files import limits, paths
from muster.stores.files.private import PrivateTree

ModelT = TypeVar("ModelT", bound=Contract)

UNFINISHED_SECONDS = 3_600.0
"""An unfinished file this old has no writer any more."""


class ReceiptStore:
    """Receipts, tombstones and keys beneath one state root.

    Args:
        tree: The state root.
    """

    def __init__(self, tree: PrivateTree) -> None:
        self._tree = tree

    def creation(self, namespace: str, key_digest: str) -> CreationReceipt | None:
        """The receipt filed under a creation's key."""
        path = paths.creation_receipt(namespace, key_digest)
        return self._read(path, CreationReceipt, limits.RECEIPT)

    def settle_creation(self, namespace: str, key_digest: str) -> None:
        """Make a receipt that was read durable: its writer may have died before it was."""
        self._tree.settle(paths.creation_receipt(namespace, key_digest))

    def claim_creation(self, receipt: CreationReceipt) -> CreationReceipt:
        """File a claim unless one is there; returns the one that is."""
        path = paths.creation_receipt(receipt.namespace_id, receipt.key_digest)
        if self._tree.create(path, _encode(receipt), limit=limits.RECEIPT):
            return receipt
        known = self.creation(receipt.namespace_id, receipt.key_digest)
        return known if known is not None else self.claim_creation(receipt)

    def replace_creation(self, receipt: CreationReceipt) -> None:
        """Replace a claim by the receipt with what has become of it."""
        path = paths.creation_receipt(receipt.namespace_id, receipt.key_digest)
        self._tree.replace(path, _encode(receipt), limit=limits.RECEIPT)

    def tombstone(self, namespace: str, deletion_id: str) -> Tombstone | None:
        """The tombstone of a deletion."""
        return self._read(paths.tombstone(namespace, deletion_id), Tombstone, limits.TOMBSTONE)

    def file_tombstone(self, tombstone: Tombstone) -> Tombstone:
        """File a tombstone unless one is there; returns the one that is.

        A late attempt would otherwise put a tombstone without an answer over a complete one.
        """
        path = paths.tombstone(tombstone.namespace_id, tombstone.deletion_id)
        if self._tree.create(path, _encode(tombstone), limit=limits.TOMBSTONE):
            return tombstone
        known = self.tombstone(tombstone.namespace_id, tombstone.deletion_id)
        return known if known is not None else self.file_tombstone(tombstone)

    def complete_tombstone(self, tombstone: Tombstone) -> None:
        """Replace a tombstone by itself with its answer."""
        path = paths.tombstone(tombstone.namespace_id, tombstone.deletion_id)
        self._tree.replace(path, _encode(tombstone), limit=limits.TOMBSTONE)

    def write_key(self, namespace: str, key_id: str, private_pem: bytes) -> None:
        """Put a private key on disk under its id, before anybody is told of it."""
        self._tree.create(paths.private_key(namespace, key_id), private_pem, limit=limits.KEY)

    def remove_key(self, namespace: str, key_id: str) -> None:
        """Remove a private key that nobody uses."""
        self._tree.remove(paths.private_key(namespace, key_id))

    def holds_key(self, namespace: str, key_id: str) -> bool:
        """Whether the private half of a key is on disk."""
        return self._tree.exists(paths.private_key(namespace, key_id))

    def sweep(self, namespace: str) -> int:
        """Remove what writers that died left unfinished an hour ago or longer; returns how many."""
        creations = paths.creations_folder(namespace)
        folders = [
            paths.keys_folder(namespace),
            paths.tombstones_folder(namespace),
            *(f"{creations}/{name}" for name in self._tree.list(creations)),
        ]
        return sum(
            self._tree.sweep_temporary(folder, older_than=UNFINISHED_SECONDS) for folder in folders
        )

    def _read(self, path: str, model: type[ModelT], limit: int) -> ModelT | None:
        data = self._tree.read(path, limit=limit)
        if data is None:
            self._require_nothing_aside(path)
            return None
        try:
            return model.model_validate_json(data)
        except ValidationError as error:
            aside = self._tree.set_aside(path, str(error))
            raise StateCorrupt(
                f"{path} can't be read: {error.error_count()} fields are wrong; "
                f"it is kept as {aside}",
                aside=aside,
            ) from error

    def _require_nothing_aside(self, path: str) -> None:
        """What was set aside isn't what never was: done again, its effect would be there twice."""
        aside = f"{path}.aside-1"
        if self._tree.exists(aside):
            raise StateCorrupt(
                f"{path} couldn't be read and is kept as {aside}; put a good copy in its place, "
                "or move what was set aside away to act as if it had never been",
                aside=aside,
            )


def _encode(model: Contract) -> bytes:
    return model.model_dump_json().encode()
