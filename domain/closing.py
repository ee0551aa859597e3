"""Closing: what a closer asks for, what it is told, and the tombstone that stays."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from muster.domain.canonical import canonical_digest
from muster.domain.contract import Contract, Timestamp
from muster.domain.identifiers import Digest, NamespaceId, SafeId, SessionId, deletion_id
from muster.domain.runtime import Endpoint


class CloseCommand(Contract):
    """One close of one incarnation of a session."""

    namespace_id: NamespaceId
    session_id: SessionId
    incarnation: SafeId
    key_digest: Digest
    force: bool = False
    keep_history: bool = False
    idle_before: Timestamp | None = None

    @property
    def deletion_id(self) -> str:
        """The one deletion of this incarnation."""
        return deletion_id(self.session_id, self.incarnation)

    @property
    def request_digest(self) -> str:
        """What makes two closes under one key the same."""
        return canonical_digest(self.model_dump(mode="json", exclude={"key_digest", "idle_before"}))


class CloseAnswer(Contract):
    """What a closer is told, now and every later time."""

    namespace_id: NamespaceId
    session_id: SessionId
    incarnation: SafeId
    deletion_id: SafeId
    runtime_already_gone: bool = False
    runtime_abandoned: bool = False
    """An operator gave it up: nobody knows whether it has ended."""
    settled_turn_ids: tuple[SafeId, ...] = ()
    kept_history: bool = False
    last_journal_seq: int = Field(default=0, ge=0)
    """The sequence of `session.closed`, the session's last public event."""
    completed_at: Timestamp


class Tombstone(Contract):
    """`deletions/<deletion_id>.json`: what is removed, captured before the removal."""

    schema_version: Literal[2] = 2
    deletion_id: SafeId
    namespace_id: NamespaceId
    session_id: SessionId
    endpoint_incarnation: SafeId
    key_digest: Digest
    request_digest: Digest
    endpoint: Endpoint
    close_key: SafeId
    turn_ids: tuple[SafeId, ...] = ()
    report_ids: tuple[SafeId, ...] = ()
    settled_turn_ids: tuple[SafeId, ...] = ()
    authority_digest: Digest
    """Of the document as it was when the close was admitted."""
    created_at: Timestamp
    answer: CloseAnswer | None = None
    """Set once everything is removed: only then may the session id live again."""
