"""Identifier patterns, derived identifiers and workflow ids.

Patterns and the outbox id are those of the system Muster replaces. What is derived from a key
is derived the same way each time, so that a repeated request finds its first self.
"""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import StringConstraints

from muster.domain.canonical import canonical_digest, sha256_hex
from muster.domain.errors import InvalidInput

NAMESPACE_PATTERN = r"^[a-z0-9][a-z0-9_-]{0,62}$"
SESSION_ID_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$"
SAFE_ID_PATTERN = r"^[a-zA-Z0-9][a-zA-Z0-9_.:-]{0,127}$"
PUBLIC_EVENT_ID_PATTERN = r"^[a-zA-Z0-9][a-zA-Z0-9_.:-]{0,511}$"
REPORT_ID_PATTERN = r"^report-[a-f0-9]{64}$"
DIGEST_PATTERN = r"^[a-f0-9]{64}$"
OUTBOX_ID_LIMIT = 512

NamespaceId = Annotated[str, StringConstraints(pattern=NAMESPACE_PATTERN)]
SessionId = Annotated[str, StringConstraints(pattern=SESSION_ID_PATTERN)]
SafeId = Annotated[str, StringConstraints(pattern=SAFE_ID_PATTERN)]
PublicEventId = Annotated[str, StringConstraints(pattern=PUBLIC_EVENT_ID_PATTERN)]
ReportId = Annotated[str, StringConstraints(pattern=REPORT_ID_PATTERN)]
Digest = Annotated[str, StringConstraints(pattern=DIGEST_PATTERN)]


def _digest_of(*parts: str) -> str:
    return sha256_hex("\0".join(parts))


def check_namespace(value: str) -> str:
    """`value` if it is a namespace id, else InvalidInput."""
    if not re.fullmatch(NAMESPACE_PATTERN, value):
        raise InvalidInput(
            f"namespace {value!r} isn't valid: 1 to 63 of a-z 0-9 _ -, "
            "starting with a letter or digit"
        )
    return value


def check_session_id(value: str) -> str:
    """`value` if it is a session id, else InvalidInput."""
    if not is_session_id(value):
        raise InvalidInput(
            f"session id {value!r} isn't valid: 1 to 128 of A-Z a-z 0-9 . _ -, "
            "starting with a letter or digit"
        )
    return value


def is_session_id(value: str) -> bool:
    """True if `value` is a session id."""
    return re.fullmatch(SESSION_ID_PATTERN, value) is not None


def is_safe_id(value: str) -> bool:
    """True if `value` fits the pattern of most identifiers."""
    return re.fullmatch(SAFE_ID_PATTERN, value) is not None


def key_digest(scope: str, key: str) -> str:
    """The digest under which a caller's idempotency key is filed, separate for each `scope`."""
    return _digest_of(scope, key)


def remote_create_key(creation_key_digest: str) -> str:
    """The key that makes a launch at the runtime repeatable."""
    return f"remote_{creation_key_digest}"


def default_session_id(creation_key_digest: str) -> str:
    """The session id of a creation that didn't name one."""
    return f"s-{creation_key_digest[:16]}"


def turn_id(prompt_key_digest: str) -> str:
    """The turn that a prompt with this key starts."""
    return f"turn-{prompt_key_digest[:32]}"


def question_id(authority_id: str) -> str:
    """The question that a gate becomes."""
    return f"q-{sha256_hex(authority_id)[:24]}"


def report_id(operation_id: str) -> str:
    """The report that an operation leaves."""
    return f"report-{sha256_hex(operation_id)}"


def authority_id(namespace: str, session_id: str, incarnation: str, gate_id: str) -> str:
    """The id of the one authority over a gate."""
    digest = canonical_digest([namespace, session_id, incarnation, gate_id])
    return f"gate-{digest[:40]}"


def deletion_id(session_id: str, incarnation: str) -> str:
    """The id of the one deletion of a session's incarnation."""
    return f"del-{_digest_of(session_id, incarnation)[:40]}"


def outbox_id(
    session_id: str, revision: int, kind: str, entity: str, entity_id: str, incarnation: str | None
) -> str:
    """The stable public id of an event; hashed when it would pass 512 characters."""
    suffix = f":inc:{incarnation}" if incarnation else ""
    full = f"txn:{session_id}:{revision}:{kind}:{entity}:{entity_id}{suffix}"
    return full if len(full) <= OUTBOX_ID_LIMIT else f"txn:{sha256_hex(full)}"


def create_workflow_id(namespace: str, creation_key_digest: str) -> str:
    """The workflow that is the one creation under a key."""
    return f"create/{namespace}/{creation_key_digest}"


def session_workflow_id(namespace: str, session_id: str) -> str:
    """The workflow that is the one writer of a session."""
    return f"session/{namespace}/{session_id}"


def close_workflow_id(namespace: str, session_id: str, incarnation: str) -> str:
    """The workflow that is the one close of a session's incarnation."""
    return f"close/{namespace}/{session_id}/{incarnation}"


def repair_workflow_id(namespace: str, session_id: str) -> str:
    """The workflow that is the one repair of a session at a time."""
    return f"repair/{namespace}/{session_id}"


def reconcile_workflow_id(namespace: str) -> str:
    """The workflow that is the one reconciliation of a namespace at a time."""
    return f"reconcile/{namespace}"


def root_task_queue(root: str) -> str:
    """The queue of the workers that mount a state root."""
    return f"muster-{root}"


def runtime_task_queue(host: str) -> str:
    """The queue of the worker on the host that owns the agent processes."""
    return f"muster-runtime-{host}"
