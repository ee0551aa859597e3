"""Commands as they travel: the digests of a caller's key and request, and the size limits.

A key is filed under a digest of its own scope, so that one key may serve a creation and a prompt.
A request's digest covers what the caller means and nothing else.
"""

from __future__ import annotations

import uuid
from datetime import UTC, datetime, timedelta
from typing import Final

from muster.domain.canonical import canonical_digest, sha256_hex
from muster.domain.changes import AcceptPrompt, CancelTurn, ClaimAnswer, FileReport, RequestStop
from muster.domain.closing import CloseCommand
from muster.domain.contract import timestamp
from muster.domain.contracts import SessionRef
from muster.domain.creation import CreateCommand, CreateSpec
from muster.domain.errors import InvalidInput, LimitExceeded
from muster.domain.identifiers import key_digest
from muster.domain.session_document import PromptOperation
from muster.domain.turn_model import INLINE_CONTENT_BYTES, Content
from muster.stores.documents.content import CONTENT_LIMIT

BEGINNING_CHARACTERS: Final = 4_000
"""How much of a long prompt stands in the document, for people; the agent gets the whole."""

KEY_LIMIT: Final = 512


def new_key() -> str:
    """A key for a caller who brought none."""
    return str(uuid.uuid4())


def prompt_content(text: str) -> Content:
    """A prompt as it travels: the whole, or the beginning of what has to be staged first.

    Raises:
        InvalidInput: It is empty or holds what can't be stored as UTF-8.
        LimitExceeded: It is longer than content may be.
    """
    if not text.strip():
        raise InvalidInput("the prompt is empty; give a text, --file PATH, or - and standard input")
    try:
        data = text.encode()
    except UnicodeEncodeError as error:
        raise InvalidInput(f"the prompt isn't valid text: {error}") from error
    if len(data) > CONTENT_LIMIT:
        raise LimitExceeded(
            f"the prompt has {len(data)} bytes, more than {CONTENT_LIMIT}; put the long part into "
            "a file of the working directory and name it in the prompt",
            bytes=len(data),
            limit=CONTENT_LIMIT,
        )
    long = len(data) > INLINE_CONTENT_BYTES
    return Content(
        text=text[:BEGINNING_CHARACTERS] if long else text,
        truncated=long,
        length=len(data),
        sha256=sha256_hex(data),
    )


def create_command(namespace: str, key: str, spec: CreateSpec) -> CreateCommand:
    """A creation under a caller's key."""
    return CreateCommand(
        namespace_id=namespace, key_digest=_filed(f"create/{namespace}", key), spec=spec
    )


def prompt_command(
    namespace: str,
    session: str,
    key: str,
    content: Content,
    operation: PromptOperation,
    source: str,
) -> AcceptPrompt:
    """A prompt under a caller's key."""
    return AcceptPrompt(
        operation=operation,
        key_digest=_filed(f"prompt/{namespace}/{session}", key),
        request_digest=canonical_digest({"operation": operation, "sha256": content.sha256}),
        content=content,
        source=source,
    )


def answer_command(
    namespace: str, session: str, key: str, question: str, option: str | None, source: str
) -> ClaimAnswer:
    """An answer under a caller's key; an `option` of None cancels the question."""
    return ClaimAnswer(
        key_digest=_filed(f"answer/{namespace}/{session}", key),
        request_digest=canonical_digest({"question_id": question, "option_id": option}),
        question_id=question,
        option_id=option,
        source=source,
    )


def stop_command(
    namespace: str, session: str, key: str, *, keep_queue: bool, turn: str | None
) -> RequestStop:
    """A stop under a caller's key."""
    return RequestStop(
        key_digest=_filed(f"operation/{namespace}/{session}", key),
        request_digest=canonical_digest({"stop": {"keep_queue": keep_queue, "turn_id": turn}}),
        keep_queue=keep_queue,
        turn_id=turn,
    )


def cancel_command(namespace: str, session: str, key: str, turn: str) -> CancelTurn:
    """A cancellation of a queued turn under a caller's key."""
    return CancelTurn(
        key_digest=_filed(f"operation/{namespace}/{session}", key),
        request_digest=canonical_digest({"cancel": {"turn_id": turn}}),
        turn_id=turn,
    )


def report_command(
    namespace: str,
    session: str,
    key: str,
    status: str,
    summary: str,
    *,
    turn: str | None = None,
    blocker: str | None = None,
    pr_url: str | None = None,
    evidence_paths: tuple[str, ...] = (),
) -> FileReport:
    """A report under a caller's key."""
    digest = _filed(f"operation/{namespace}/{session}", key)
    content = {
        "turn_id": turn,
        "status": status,
        "summary": summary,
        "blocker": blocker,
        "pr_url": pr_url,
        "evidence_paths": list(evidence_paths),
    }
    return FileReport(
        operation_id=f"report-{digest[:32]}",
        key_digest=digest,
        request_digest=canonical_digest({"report": content}),
        turn_id=turn,
        status=status,
        summary=summary,
        blocker=blocker,
        pr_url=pr_url,
        evidence_paths=evidence_paths,
    )


def close_command(
    ref: SessionRef,
    key: str | None,
    *,
    force: bool,
    keep_history: bool,
    idle_for: timedelta | None,
) -> CloseCommand:
    """A close; without a key, the one that belongs to this incarnation."""
    scope = f"close/{ref.namespace_id}/{ref.session_id}"
    return CloseCommand(
        namespace_id=ref.namespace_id,
        session_id=ref.session_id,
        incarnation=ref.incarnation,
        key_digest=_filed(scope, key or f"close:{ref.incarnation}"),
        force=force,
        keep_history=keep_history,
        idle_before=_idle_before(idle_for),
    )


def _idle_before(idle_for: timedelta | None) -> str | None:
    return None if idle_for is None else timestamp(datetime.now(UTC) - idle_for)


def _filed(scope: str, key: str) -> str:
    if not 0 < len(key) <= KEY_LIMIT:
        raise InvalidInput(f"a key has 1 to {KEY_LIMIT} characters, this one {len(key)}")
    return key_digest(scope, key)
