"""What Muster asks of an agent runtime and what a runtime reports.

The models are the contract between the workflows, the runtime activities and the adapters in
`runtimes/`. Every command carries a key; a runtime answers a repeated key with its first answer.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any, Literal

from pydantic import Field

from muster.domain.contract import Contract
from muster.domain.identifiers import Digest, NamespaceId, SafeId, SessionId

RESPONSE_EXCERPT_BYTES = 16 * 1024
"""How much of a turn's final response travels with `turn.ended`; the rest is an artifact."""


class Verifier(Contract):
    """The public half of the key that a session's runtime signs with."""

    key_id: Digest
    public_key: str
    """The raw Ed25519 public key in standard base64; `key_id` is the sha256 of its bytes."""


class RuntimeKind(StrEnum):
    """The adapters in `runtimes/`."""

    ACP = "acp"
    OPENCODE = "opencode"


class Endpoint(Contract):
    """Where one incarnation of a session lives."""

    runtime: RuntimeKind
    namespace_id: NamespaceId
    session_id: SessionId
    incarnation: SafeId
    endpoint_url: str
    """For acp the path of the sidecar's folder under the state root, as `acp:<relative path>`;
    for opencode the server's URL with the session."""
    verifier: Verifier
    runtime_queue: str | None = None
    """The task queue of the host that owns the agent; None for an endpoint that nobody placed."""


class LaunchRequest(Contract):
    """Start an agent for a session, once for each `remote_create_key`."""

    runtime: RuntimeKind
    namespace_id: NamespaceId
    session_id: SessionId
    remote_create_key: SafeId
    cwd: str
    command: tuple[str, ...] = ()
    """The ACP agent's command line; empty means the scripted agent that ships with Muster."""
    model: str | None = None
    verifier: Verifier
    """The public half; the private half is already on disk under its key id."""
    environment: dict[str, str] = Field(default_factory=dict)


class Launched(Contract):
    """A launch that exists, new or found."""

    endpoint: Endpoint
    used_key_id: Digest
    """The key the runtime really signs with, stated and proven by the runtime."""
    process_id: int | None = None
    adopted: bool = False
    """True if this call found the launch and did not make it."""


class LaunchState(StrEnum):
    """What the runtime knows of a remote creation key."""

    ABSENT = "absent"
    """Provably never started under this key: it may be launched."""
    RUNNING = "running"
    ENDED = "ended"
    """Started under this key and gone."""
    UNKNOWN = "unknown"
    """The runtime can't say; the caller must not launch."""


class LaunchFound(Contract):
    """The answer to a look-up by remote creation key."""

    state: LaunchState
    launched: Launched | None = None
    evidence: str = ""


class DeliverRequest(Contract):
    """Hand one prompt to the agent, once for each `key`."""

    endpoint: Endpoint
    key: SafeId
    turn_id: SafeId
    text: str


class DeliverReceipt(Contract):
    """The runtime's evidence that it took the prompt."""

    accepted: Literal[True] = True
    command_id: SafeId
    runtime_turn_id: SafeId


class AnswerCommand(Contract):
    """Answer one open gate, once for each `key`."""

    endpoint: Endpoint
    key: SafeId
    gate_id: SafeId
    option_id: str | None
    """The chosen option, or None to cancel the gate."""


class AnswerReceipt(Contract):
    """Whether the gate took the answer: a gate that is already closed rejects it."""

    status: Literal["accepted", "rejected"]
    reason: str | None = None


class InterruptRequest(Contract):
    """Cancel the running turn, once for each `key`; without a running turn it is a success."""

    endpoint: Endpoint
    key: SafeId
    runtime_turn_id: SafeId | None = None


class CloseRequest(Contract):
    """End the agent and its sidecar, once for each `key`; already gone is a success."""

    endpoint: Endpoint
    key: SafeId


class Closed(Contract):
    """The runtime has ended."""

    already_gone: bool = False


class GateOption(Contract):
    """One choice of a gate, as the Agent Client Protocol types it."""

    option_id: str
    name: str
    kind: Literal["allow_once", "allow_always", "reject_once", "reject_always"]


class _Event(Contract):
    seq: int = Field(ge=1)
    """Position in the runtime's event log: 1, 2, 3 without a gap."""
    at: str
    """When the runtime saw it, ISO 8601 in UTC. For people; order is by `seq`."""


class TurnStarted(_Event):
    """The agent took a prompt."""

    type: Literal["turn.started"] = "turn.started"
    turn_id: SafeId
    runtime_turn_id: SafeId
    command_id: SafeId


class MessageChunk(_Event):
    """Output streamed during a turn; for live viewers, not for the workflow."""

    type: Literal["message.chunk"] = "message.chunk"
    turn_id: SafeId
    text: str


class GateOpened(_Event):
    """The agent asks and waits."""

    type: Literal["gate.opened"] = "gate.opened"
    gate_id: str
    turn_id: str
    runtime_turn_id: str
    stage: str
    kind: str
    prompt: str
    options: tuple[GateOption, ...]


class GateClosed(_Event):
    """A gate ended: answered with an option, or cancelled."""

    type: Literal["gate.closed"] = "gate.closed"
    gate_id: str
    turn_id: str
    outcome: Literal["answered", "cancelled"]
    option_id: str | None = None


class FinalResponse(Contract):
    """What a turn said: an excerpt, and the whole by reference when it is larger."""

    text: str
    truncated: bool = False
    length: int
    """UTF-8 bytes of the whole response."""
    sha256: Digest
    artifact_path: str | None = None
    """Of the whole response under the namespace's root, when truncated."""


class TurnEnded(_Event):
    """The agent ended a turn."""

    type: Literal["turn.ended"] = "turn.ended"
    turn_id: SafeId
    runtime_turn_id: SafeId
    stop_reason: Literal[
        "end_turn", "max_tokens", "max_turn_requests", "refusal", "cancelled", "error"
    ]
    response: FinalResponse
    usage: dict[str, Any] | None = None
    error: str | None = None
    head_before: str | None = None
    head_after: str | None = None


class AgentExited(_Event):
    """The agent process ended by itself."""

    type: Literal["agent.exited"] = "agent.exited"
    exit_code: int | None = None
    reason: str = ""


class EndpointClosed(_Event):
    """The sidecar ended after a close."""

    type: Literal["endpoint.closed"] = "endpoint.closed"


RuntimeEvent = Annotated[
    TurnStarted | MessageChunk | GateOpened | GateClosed | TurnEnded | AgentExited | EndpointClosed,
    Field(discriminator="type"),
]


class RejectedEvent(Contract):
    """An event whose signature, binding or form is wrong: kept as evidence, never applied."""

    seq: int | None
    digest: Digest
    """Of the bytes received."""
    malformed: Literal[
        "missing_runtime_turn", "invalid_runtime_turn", "invalid_gate_row", "wrong_session"
    ]
    reason: str


class FollowRequest(Contract):
    """Wait for events after a cursor."""

    endpoint: Endpoint
    after: int = Field(ge=0)
    """The sequence of the last event already applied; 0 for none."""
    wait_seconds: float = 30.0
    """How long to wait for a first event."""
    limit: int = 64
    include_chunks: bool = False


class FollowResult(Contract):
    """Events in order; `cursor` is where to go on, also past what was left out."""

    events: tuple[RuntimeEvent, ...] = ()
    rejected: tuple[RejectedEvent, ...] = ()
    cursor: int
    gone: bool = False
    """The runtime has ended and no further event will come."""
