"""Where everything stands beneath a state root."""

from __future__ import annotations

from muster.domain.identifiers import check_namespace, check_session_id

DOCUMENT = "session.json"
HISTORY = "history"
RUNTIME = "runtime"
"""In a session's folder; each launch has a folder of its own in the last."""


def namespace_folder(namespace: str) -> str:
    """The folder of a namespace."""
    return f"v2/{check_namespace(namespace)}"


def creations_folder(namespace: str) -> str:
    """The folder of creation receipts."""
    return f"{namespace_folder(namespace)}/creations"


def tombstones_folder(namespace: str) -> str:
    """The folder of tombstones."""
    return f"{namespace_folder(namespace)}/deletions"


def keys_folder(namespace: str) -> str:
    """The folder of private keys."""
    return f"{namespace_folder(namespace)}/keys"


def creation_receipt(namespace: str, key_digest: str) -> str:
    """A creation's receipt; spread over 256 folders."""
    return f"{creations_folder(namespace)}/{key_digest[:2]}/{key_digest}.json"


def tombstone(namespace: str, deletion_id: str) -> str:
    """A deletion's tombstone."""
    return f"{tombstones_folder(namespace)}/{deletion_id}.json"


def private_key(namespace: str, key_id: str) -> str:
    """The private half of a session's key."""
    return f"{keys_folder(namespace)}/{key_id}.pem"


def sessions_folder(namespace: str) -> str:
    """The folder of all sessions of a namespace."""
    return f"{namespace_folder(namespace)}/sessions"


def session_folder(namespace: str, session_id: str) -> str:
    """A session's own folder; nothing outside it is ever removed with the session."""
    return f"{sessions_folder(namespace)}/{check_session_id(session_id)}"


def session_document(namespace: str, session_id: str) -> str:
    """The canonical document."""
    return f"{session_folder(namespace, session_id)}/{DOCUMENT}"


def history_folder(namespace: str, session_id: str, incarnation: str) -> str:
    """What compaction took out of the document of an incarnation, a file for each time."""
    return f"{session_folder(namespace, session_id)}/{HISTORY}/{incarnation}"


def receipts_folder(namespace: str, session_id: str, incarnation: str) -> str:
    """The receipts of what compaction took out, a file for each time."""
    return f"{session_folder(namespace, session_id)}/receipts/{incarnation}"


def projection_folder(namespace: str, session_id: str) -> str:
    """The read copies."""
    return f"{session_folder(namespace, session_id)}/projection"
