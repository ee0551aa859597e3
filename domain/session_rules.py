"""What holds in every session document, each rule under its name.

The shape (types, patterns, statuses) is checked by the models; what ties one part of the document
to another is checked by the registered rules. A document that breaks a rule is never written, and
one that was found on disk is set aside, never overwritten.
"""

from __future__ import annotations

from collections.abc import Iterator

from pydantic import ValidationError

from muster.domain import gate_rules, turn_rules  # noqa: F401 (they register their rules)
from muster.domain.errors import StateCorrupt
from muster.domain.rule_registry import RULES, Violation, repeated, rule
from muster.domain.session_document import SessionDocument


@rule("session.identity")
def _session_identity(document: SessionDocument) -> Iterator[tuple[str, str]]:
    session = document.canonical.session
    if (session.namespace_id, session.session_id) != (document.namespace_id, document.session_id):
        yield "canonical.session", "names another session than the document"


@rule("operation.key")
def _operation_key(document: SessionDocument) -> Iterator[tuple[str, str]]:
    for key, operation in document.requests.operations.items():
        if key != operation.operation_id:
            yield f"requests.operations.{key}", "is filed under another id than its own"


@rule("event.key")
def _event_key(document: SessionDocument) -> Iterator[tuple[str, str]]:
    for key, event in document.outbox.items():
        if key != event.id:
            yield f"outbox.{key}", "is filed under another id than its own"


@rule("event.revision")
def _event_revision(document: SessionDocument) -> Iterator[tuple[str, str]]:
    for key, event in document.outbox.items():
        if event.transaction_revision > document.revision:
            yield f"outbox.{key}.transaction_revision", "is ahead of the document's revision"


@rule("event.delivery")
def _event_delivery(document: SessionDocument) -> Iterator[tuple[str, str]]:
    for key, event in document.outbox.items():
        delivery = event.public_delivery
        if delivery.public_event_id != event.public_event_id:
            yield f"outbox.{key}.public_delivery", "is of another event"
        elif (delivery.journal_seq is None) != (delivery.acknowledged_at is None):
            yield f"outbox.{key}.public_delivery", "has a sequence or an acknowledgement alone"


@rule("event.public_ids_unique")
def _event_public_ids(document: SessionDocument) -> Iterator[tuple[str, str]]:
    for found in repeated(each.public_event_id for each in document.outbox.values()):
        yield "outbox", f"has the public event id {found} twice"


def violations(document: SessionDocument) -> list[Violation]:
    """Every broken rule in `document`, in the order of the rules."""
    return [
        Violation(name, where, message)
        for name, check in RULES.items()
        for where, message in check(document)
    ]


def check_document(document: SessionDocument) -> None:
    """Raises StateCorrupt with the rule and the place of the first violation."""
    found = violations(document)
    if found:
        first = found[0]
        raise StateCorrupt(
            f"session {document.session_id} breaks {first.rule} at {first.where}: {first.message}",
            rule=first.rule,
            where=first.where,
            count=len(found),
        )


def decode_document(data: bytes, namespace_id: str, session_id: str) -> SessionDocument:
    """The document in `data`, which must be of this session and keep every rule.

    Raises StateCorrupt with the rule (`shape` for what the models check) and the place.
    """
    try:
        document = SessionDocument.model_validate_json(data, strict=True)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        raise StateCorrupt(
            f"session {session_id} breaks shape at {where or 'its root'}: {first['msg']}",
            rule="shape",
            where=where,
        ) from error
    if (document.namespace_id, document.session_id) != (namespace_id, session_id):
        raise StateCorrupt(
            f"the document of {namespace_id}/{session_id} names "
            f"{document.namespace_id}/{document.session_id}",
            rule="document.identity",
            where="session_id",
        )
    check_document(document)
    return document
