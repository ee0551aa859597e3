"""What an error of the MongoDB driver means to a caller: coded, with what, where, what to do.

The class and the server's numeric code decide, never a message's text.
"""

from __future__ import annotations

from typing import Any

from bson.errors import BSONError
from pymongo.errors import (
    BulkWriteError,
    ConnectionFailure,
    DocumentTooLarge,
    OperationFailure,
    PyMongoError,
    ServerSelectionTimeoutError,
)

from muster.domain.errors import InvalidInput, LimitExceeded, MongoUnavailable, MusterError

UNSTORABLE = (BSONError, OverflowError, UnicodeEncodeError)
"""What the driver raises for a value that BSON doesn't know."""

DUPLICATE_KEY = 11000
_TOO_LARGE = frozenset({10334, 17420})
_CREDENTIALS = frozenset({18, 8000})
_PERMISSION = frozenset({13})

_ADVICE = {
    "unreachable": "start it, or correct MUSTER_MONGO_URI (address, tls), then repeat the call",
    "timeout": "look at the server's load and at its replica set; the same call may be repeated",
    "tls": "check tls, tlsCAFile and the host name in MUSTER_MONGO_URI against the certificate",
    "credentials": "correct the user, password or authSource in MUSTER_MONGO_URI",
    "permission": "grant the user readWrite on this database",
    "refused": "look at the server's log",
}


def coded_failure(error: Exception, doing: str, where: str) -> MusterError:
    """The coded error for what the driver raised while `doing` something at `where`."""
    if isinstance(error, UNSTORABLE) and not isinstance(error, PyMongoError):
        return InvalidInput(
            f"can't {doing} at {where}: a value has no form in BSON ({type(error).__name__}); "
            "integers have 64 bits and texts are valid Unicode without a zero in a name"
        )
    code = error.code if isinstance(error, OperationFailure) else None
    if isinstance(error, DocumentTooLarge) or code in _TOO_LARGE:
        return LimitExceeded(f"can't {doing} at {where}: a document is larger than MongoDB takes")
    facts = [type(error).__name__]
    if isinstance(error, ConnectionFailure):
        facts.append(_network_word(error))
    if code is not None:
        facts.append(f"code {code}")
    return unavailable(doing, where, _reason(error, code), ", ".join(facts), code)


def unavailable(
    doing: str, where: str, reason: str, facts: str, code: int | None = None
) -> MongoUnavailable:
    """The error for one of the reasons, with its advice."""
    return MongoUnavailable(
        f"can't {doing} at {where}: {reason} ({facts}); {_ADVICE[reason]}",
        reason=reason,
        facts=facts,
        server_code=code,
    )


def _network_word(error: ConnectionFailure) -> str:
    """The driver's own word, for the reader of the message alone."""
    return str(error).partition(" (configured timeouts")[0][:200]


def _reason(error: Exception, code: int | None) -> str:
    if code in _CREDENTIALS:
        return "credentials"
    if code in _PERMISSION:
        return "permission"
    if isinstance(error, ServerSelectionTimeoutError):
        return "unreachable"
    if isinstance(error, PyMongoError) and error.timeout:
        return "timeout"
    return "unreachable" if isinstance(error, ConnectionFailure) else "refused"


def only_duplicates(error: BulkWriteError) -> bool:
    """Whether all that a bulk insert failed with is that documents are there already."""
    failed: list[dict[str, Any]] = error.details.get("writeErrors", [])
    return (
        bool(failed)
        and not error.details.get("writeConcernErrors")
        and all(each["code"] == DUPLICATE_KEY for each in failed)
    )
