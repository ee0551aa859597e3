"""Creation: what a creator asks for, what identifies the request, and the first document.

A creation intent's digest leaves out the times of observation, so that recovery may observe again
and still recognise its own work.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, model_validator

from muster.domain.canonical import canonical_digest
from muster.domain.changes import AcceptPrompt
from muster.domain.contract import Contract, NonEmpty, Timestamp
from muster.domain.draft import Draft
from muster.domain.errors import IdempotencyConflict, TerminalUncertain
from muster.domain.identifiers import (
    Digest,
    NamespaceId,
    SafeId,
    SessionId,
    default_session_id,
    remote_create_key,
    turn_id,
)
from muster.domain.runtime import Launched, LaunchRequest, RuntimeKind, Verifier
from muster.domain.session_document import (
    Broker,
    Canonical,
    ObservedEndpoint,
    OutboxEntity,
    Scalar,
    SessionDocument,
    SessionPolicy,
    SessionSnapshot,
    SessionState,
    Tmux,
)
from muster.domain.turn_model import Content


class RegisteredEndpoint(Contract):
    """The endpoint of a session that already runs."""

    endpoint_url: NonEmpty
    endpoint_incarnation: SafeId
    endpoint_generation: int = Field(default=0, ge=0)
    verifier: Verifier


class InitialEvent(Contract):
    """A public event that the creation owes beside its own."""

    kind: NonEmpty
    entity: OutboxEntity = "session"
    entity_id: str | None = None
    payload: dict[str, Scalar] = Field(default_factory=dict)


class CreateSpec(Contract):
    """A session as its creator wants it; all of it belongs to the request's identity."""

    kind: Literal["register", "start", "delegate"] = "start"
    workflow: Literal["plan", "execute"] | None = None
    """What a delegate is to do."""
    session_id: SessionId | None = None
    cwd: NonEmpty
    title: str | None = Field(default=None, max_length=200)
    mpreset: str | None = None
    source: str | None = None
    model: str | None = None
    tmux: Tmux = Tmux()
    workspace: str | None = None
    ephemeral: bool = False
    visible: bool = True
    runtime: RuntimeKind = RuntimeKind.ACP
    command: tuple[str, ...] = ()
    environment: dict[str, str] = Field(default_factory=dict)
    endpoint: RegisteredEndpoint | None = None
    initial_state: SessionState = SessionState.READY_FOR_INPUT
    initial_events: tuple[InitialEvent, ...] = ()
    initial_prompt: Content | None = None
    policy: SessionPolicy = SessionPolicy()

    @model_validator(mode="after")
    def _parts_fit_the_kind(self) -> CreateSpec:
        if (self.kind == "register") != (self.endpoint is not None):
            raise ValueError("endpoint is needed for kind register and for no other")
        if (self.kind == "delegate") != (self.workflow is not None):
            raise ValueError("workflow (plan or execute) is needed for kind delegate only")
        if self.kind == "delegate" and self.initial_prompt is None:
            raise ValueError("a delegate needs its initial_prompt")
        if self.kind == "register" and self.initial_prompt is not None:
            raise ValueError("a registered session takes no initial_prompt; send it afterwards")
        return self


class CreateCommand(Contract):
    """One creation under one caller's key."""

    namespace_id: NamespaceId
    key_digest: Digest
    spec: CreateSpec

    @property
    def request_digest(self) -> str:
        """What makes two requests under one key the same."""
        return canonical_digest(self.spec.model_dump(mode="json"))

    @property
    def session_id(self) -> str:
        """The session's id: the creator's, or one that follows from the key."""
        return self.spec.session_id or default_session_id(self.key_digest)

    @property
    def remote_create_key(self) -> str:
        """The key of the launch at the runtime."""
        return remote_create_key(self.key_digest)


class CreateAnswer(Contract):
    """What a creator is told, now and every later time."""

    namespace_id: NamespaceId
    session_id: SessionId
    incarnation: SafeId
    kind: Literal["register", "start", "delegate"]
    endpoint_url: str
    verifier: Verifier
    revision: int
    initial_turn_id: SafeId | None = None
    created_at: Timestamp


class CreationFailure(Contract):
    """Why a creation ended without a session."""

    code: str
    message: str
    details: dict[str, Any] = Field(default_factory=dict)


class CreationReceipt(Contract):
    """`creations/<ab>/<key_digest>.json`: the claim, and the outcome once there is one.

    The answer is filed when the document is there, and is complete at once; a failure is filed
    before what was launched is ended, and `completed_at` says that it has.
    """

    schema_version: Literal[2] = 2
    namespace_id: NamespaceId
    key_digest: Digest
    request_digest: Digest
    tool: Literal["register", "start", "delegate"]
    request: CreateSpec
    remote_create_key: SafeId
    session_id: SessionId
    sidecar_verifier: Verifier
    created_at: Timestamp
    answer: CreateAnswer | None = None
    failure: CreationFailure | None = None
    completed_at: Timestamp | None = None


def differing_fields(first: CreateSpec, second: CreateSpec) -> list[str]:
    """The names of the fields in which two requests differ."""
    one, two = first.model_dump(mode="json"), second.model_dump(mode="json")
    return [name for name in one if one[name] != two[name]]


def require_same_creation(known: CreateSpec, asked: CreateSpec) -> None:
    """Raises IdempotencyConflict, naming the fields, if a key comes back with another request."""
    fields = differing_fields(known, asked)
    if fields:
        raise IdempotencyConflict(
            f"this key was used before for another session: {', '.join(fields)} differs; "
            "repeat the first request or use a new key",
            fields=fields,
        )


def launch_request(command: CreateCommand, verifier: Verifier) -> LaunchRequest:
    """What the runtime is asked for."""
    spec = command.spec
    return LaunchRequest(
        runtime=spec.runtime,
        namespace_id=command.namespace_id,
        session_id=command.session_id,
        remote_create_key=command.remote_create_key,
        cwd=spec.cwd,
        command=spec.command,
        model=spec.model,
        verifier=verifier,
        environment=spec.environment,
    )


def reconcile_verifier(durable: Verifier, launched: Launched, held_key_ids: list[str]) -> Verifier:
    """The verifier that holds after a launch: only the runtime's proof may change the durable one.

    Args:
        durable: The public half recorded before the launch.
        launched: What the runtime states and has proven by its signature.
        held_key_ids: The keys whose private half is on this namespace's disk.

    Raises:
        TerminalUncertain: The runtime signs with a key that was never handed to it.
    """
    if launched.used_key_id == durable.key_id:
        return durable
    presented = launched.endpoint.verifier
    if launched.used_key_id in held_key_ids and presented.key_id == launched.used_key_id:
        return presented
    raise TerminalUncertain(
        f"the runtime signs with key {launched.used_key_id[:12]}, which isn't the key "
        f"{durable.key_id[:12]} of this creation; `muster session resolve` decides",
        used_key_id=launched.used_key_id,
        expected_key_id=durable.key_id,
    )


def session_snapshot(command: CreateCommand, broker: Broker, at: str) -> SessionSnapshot:
    """The session as asked for, at the endpoint it got."""
    spec = command.spec
    return SessionSnapshot(
        namespace_id=command.namespace_id,
        session_id=command.session_id,
        cwd=spec.cwd,
        created_at=at,
        updated_at=at,
        title=spec.title,
        mpreset=spec.mpreset,
        source=spec.source,
        model=spec.model,
        tmux=spec.tmux,
        broker=broker,
        ephemeral=spec.ephemeral,
        visible=spec.visible,
    )


def creation_intent_digest(command: CreateCommand, session: SessionSnapshot) -> str:
    """The digest of all that a creation means, without when it was observed."""
    spec = command.spec
    prompt = spec.initial_prompt
    intent = {
        "kind": spec.kind,
        "workflow": spec.workflow,
        "session": session.model_dump(mode="json", exclude={"created_at", "updated_at"}),
        "remote_create_key": command.remote_create_key,
        "initial_state": spec.initial_state,
        "initial_prompt": prompt.model_dump(mode="json") if prompt else None,
        "initial_events": [
            {
                **event.model_dump(mode="json", exclude={"payload"}),
                "payload": {k: v for k, v in event.payload.items() if k != "created_at"},
            }
            for event in spec.initial_events
        ],
    }
    return canonical_digest(intent)


def first_document(command: CreateCommand, broker: Broker, at: str) -> SessionDocument:
    """The session's document at revision 1 with the events that its creation owes."""
    session = session_snapshot(command, broker, at)
    empty = SessionDocument(
        creation_intent_digest=creation_intent_digest(command, session),
        namespace_id=command.namespace_id,
        session_id=command.session_id,
        revision=1,
        endpoint=ObservedEndpoint(incarnation=broker.endpoint_incarnation, observed_at=at),
        policy=command.spec.policy,
        canonical=Canonical(session=session, desired_session_state=command.spec.initial_state),
    )
    draft = Draft(empty.model_copy(update={"revision": 0}), at)
    draft.emit("session.created", "session", command.session_id, creation=command.spec.kind)
    for event in command.spec.initial_events:
        entity_id = event.entity_id or command.session_id
        payload = {k: v for k, v in event.payload.items() if k not in ("session_id", "created_at")}
        draft.emit_payload(event.kind, event.entity, entity_id, payload)
    return empty.model_copy(update={"outbox": draft.outbox})


def initial_prompt_change(command: CreateCommand) -> AcceptPrompt | None:
    """The initial prompt as the session's first command, under a key of the creation's own."""
    prompt = command.spec.initial_prompt
    if prompt is None:
        return None
    return AcceptPrompt(
        operation="turn.prompt",
        key_digest=command.key_digest,
        request_digest=canonical_digest(prompt.model_dump(mode="json")),
        content=prompt,
        source=f"{command.spec.kind}.initial_prompt",
    )


def create_answer(command: CreateCommand, document: SessionDocument) -> CreateAnswer:
    """What the creator of `document` is told."""
    broker = document.canonical.session.broker
    return CreateAnswer(
        namespace_id=document.namespace_id,
        session_id=document.session_id,
        incarnation=broker.endpoint_incarnation,
        kind=command.spec.kind,
        endpoint_url=broker.endpoint_url,
        verifier=broker.sidecar_verifier,
        revision=1,
        initial_turn_id=turn_id(command.key_digest) if command.spec.initial_prompt else None,
        created_at=document.canonical.session.created_at,
    )
