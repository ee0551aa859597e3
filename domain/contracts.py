"""Inputs, outputs and names of workflows, updates and activities, each stated once."""

from __future__ import annotations

from enum import StrEnum

from pydantic import Field

from muster.domain.changes import AcceptPrompt, Change, Outcome, RecordDelivery
from muster.domain.closing import CloseCommand
from muster.domain.contract import Contract, Timestamp
from muster.domain.control import ControlState
from muster.domain.creation import (
    CreateAnswer,
    CreateCommand,
    CreationFailure,
    CreationReceipt,
)
from muster.domain.identifiers import NamespaceId, SafeId, SessionId
from muster.domain.runtime import (
    Closed,
    Endpoint,
    FollowRequest,
    Launched,
    LaunchRequest,
)
from muster.domain.view import TurnView


class Workflows(StrEnum):
    """Workflow types."""

    CREATE_SESSION = "CreateSession"
    SESSION = "Session"
    CLOSE_SESSION = "CloseSession"
    RECONCILE_SESSIONS = "ReconcileSessions"
    REPAIR_SESSION = "RepairSession"
    REAP_IDLE_SESSIONS = "ReapIdleSessions"
    READ_HISTORY = "ReadHistory"


class Updates(StrEnum):
    """Updates, queries and signals."""

    CREATE = "create"
    PROMPT = "prompt"
    ANSWER = "answer"
    STOP = "stop"
    CANCEL_TURN = "cancel_turn"
    REPORT = "report"
    ADMIT_CLOSE = "admit_close"
    DRAIN = "drain"
    CLOSE = "close"
    CONTROL = "control"
    NUDGE = "nudge"
    RESOLVE = "resolve"


class Activities(StrEnum):
    """Activity types."""

    CLAIM_CREATION = "claim_creation"
    RECORD_CREATION = "record_creation"
    COMPLETE_CREATION = "complete_creation"
    OPEN_SESSION = "open_session"
    COMMIT_SESSION = "commit_session"
    PUBLISH_EVENTS = "publish_events"
    FAIL_CREATION = "fail_creation"
    LAUNCH = "launch"
    ADOPT_LAUNCH = "adopt_launch"
    END_LAUNCH = "end_launch"
    MARK_CREATION_UNCERTAIN = "mark_creation_uncertain"
    MARK_CLOSE_UNCERTAIN = "mark_close_uncertain"
    DELIVER = "deliver"
    FOLLOW = "follow"
    ANSWER = "answer"
    INTERRUPT = "interrupt"
    CLOSE_RUNTIME = "close_runtime"
    REQUEST_CLOSE = "request_close"
    FINISH_SESSION = "finish_session"
    REMOVE_SESSION = "remove_session"
    RECONCILE_PAGE = "reconcile_page"
    REPAIR_SESSION = "repair_session"
    FIND_IDLE_SESSIONS = "find_idle_sessions"
    READ_HISTORY = "read_history"


class Placement(Contract):
    """The queues that a session's work runs on."""

    root_queue: str
    """Polled by workers that mount the namespace's state root."""
    runtime_queue: str
    """Polled on the host that owns the agent processes."""


class CreateInput(Contract):
    """`CreateSession`."""

    command: CreateCommand
    placement: Placement


class ReconcileTotals(Contract):
    """What a reconciliation has seen and done so far."""

    seen: int = 0
    nudged: int = 0
    needs_repair: int = 0
    session_ids: tuple[str, ...] = ()
    """The first of those that were nudged or need repair."""


class SessionRef(Contract):
    """One incarnation of a session."""

    namespace_id: NamespaceId
    session_id: SessionId
    incarnation: SafeId


class ReconcileInput(Contract):
    """`ReconcileSessions`: look at every session of a namespace once."""

    namespace_id: NamespaceId
    placement: Placement
    after: str = ""
    """The session id behind which to go on."""
    totals: ReconcileTotals = ReconcileTotals()


class ReconcilePage(Contract):
    """Look at the next sessions in order of their ids."""

    namespace_id: NamespaceId
    placement: Placement
    after: str = ""
    limit: int = Field(default=200, ge=1, le=1_000)


class ReconciledPage(Contract):
    """What was found on a page; without `next_after` it was the last."""

    totals: ReconcileTotals
    next_after: str | None


class ReapInput(Contract):
    """`ReapIdleSessions`: close what nobody has used for as long as its creator allowed."""

    namespace_id: NamespaceId
    placement: Placement
    after: str = ""
    seen: int = 0
    closed: int = 0


class FindIdle(Contract):
    """Look for idle sessions among the next ones in order of their ids."""

    namespace_id: NamespaceId
    now: Timestamp
    after: str = ""
    limit: int = Field(default=200, ge=1, le=1_000)


class IdleSessions(Contract):
    """The closes that are due; without `next_after` it was the last page."""

    seen: int
    closes: tuple[CloseCommand, ...]
    next_after: str | None


class RepairInput(Contract):
    """`RepairSession`."""

    namespace_id: NamespaceId
    session_id: SessionId
    placement: Placement


class RepairAnswer(Contract):
    """What a repair found and did."""

    namespace_id: NamespaceId
    session_id: SessionId
    incarnation: SafeId
    revision: int
    rebuilt: bool
    """True if the document had to be put together again."""
    projections_mended: int
    notes: tuple[str, ...] = ()


class HistoryRequest(Contract):
    """`ReadHistory`: a page of the turns that left a session's document, newest first."""

    namespace_id: NamespaceId
    session_id: SessionId
    before: str | None = None
    """The cursor of an earlier page."""
    limit: int = Field(default=20, ge=1, le=100)


class HistoryPage(Contract):
    """Archived turns; without `next_before` there are no older ones."""

    turns: tuple[TurnView, ...]
    next_before: str | None = None
    unreadable: tuple[str, ...] = ()
    """Why archive files of this page are left out."""


class SessionInput(Contract):
    """`Session`; `control` is carried over when it continues as new."""

    ref: SessionRef
    placement: Placement
    control: ControlState | None = None
    initial_prompt: AcceptPrompt | None = None
    continue_after_events: int = Field(default=1_000, ge=100)
    """History events after which the run continues as new; the server's own word comes first.

    A worker that doesn't know the run replays all of it within one workflow task, at about 1.4 ms
    of processor time an event: more than a task's timeout and the session could never go on.
    """


class CloseInput(Contract):
    """`CloseSession`."""

    command: CloseCommand
    placement: Placement


class ClaimedCreation(Contract):
    """The receipt as it stands, and the launch that follows from it."""

    receipt: CreationReceipt
    launch: LaunchRequest | None = None
    """None for a registration or a creation that is complete."""
    recorded: bool = False
    """True if the session that the receipt's answer tells of lives and isn't being closed."""


class RecordCreation(Contract):
    """Write the first document for what was launched or registered."""

    command: CreateCommand
    receipt: CreationReceipt
    launched: Launched | None
    runtime_queue: str | None = None
    accept_verifier: bool = False
    """True once an operator has adopted a runtime that signs with a key of its own."""


class CreationRecorded(Contract):
    """The answer that the document warrants."""

    answer: CreateAnswer


class FailCreation(Contract):
    """Put the final failure on the receipt and take back the key that was to be signed with."""

    command: CreateCommand
    failure: CreationFailure


class CompleteCreation(Contract):
    """Say on the receipt that everything its outcome entails is done."""

    command: CreateCommand


class Decision(StrEnum):
    """What an operator says of an outcome that nobody knows."""

    RETRY = "retry"
    """Look again, and do it if it was provably not done."""
    ADOPT = "adopt"
    """Take what the runtime shows as it is, also under a key that it chose."""
    ABANDON = "abandon"
    """Give it up; what there is at the runtime is ended."""


class ResolveCommand(Contract):
    """An operator's word on a workflow that is uncertain."""

    decision: Decision
    operator: str = ""
    """Who decided, for the record."""


class Resolved(Contract):
    """The decision that was taken."""

    decision: Decision
    evidence: str
    """What was uncertain."""


class MarkUncertain(Contract):
    """Show readers a creation or a close that waits for an operator."""

    namespace_id: NamespaceId
    session_id: SessionId
    key_digest: str | None = None
    """Of the creation."""
    incarnation: SafeId | None = None
    """Of the session whose close it is."""
    reason: str


class CommitRequest(Contract):
    """Apply one change to a session's document if it still has the expected revision."""

    ref: SessionRef
    expected_revision: int
    delivered: SafeId | None = None
    """A turn whose receipt the wait for it may have put on record since: that alone doesn't make
    the revision another."""
    change: Change
    at: str


class CommitResult(Contract):
    """The change's outcome and the control state of the document as it is on disk now."""

    outcome: Outcome | None
    """None if the document has another revision than expected: nothing was changed."""
    control: ControlState


class DeliverTurn(Contract):
    """Hand a turn's prompt, read from the document, to the runtime."""

    ref: SessionRef
    endpoint: Endpoint
    turn_id: SafeId
    key: SafeId


class FollowTurn(Contract):
    """Wait for the next event of the runtime that matters."""

    ref: SessionRef
    request: FollowRequest
    delivered: RecordDelivery | None = None
    """Not on record yet: a wait that lasts records and publishes it, the workflow does it after."""


class RemoveSession(Contract):
    """Remove what the session left, the canonical document last, and complete the tombstone."""

    command: CloseCommand
    closed: Closed
    abandoned: bool = False
    """An operator gave the runtime up."""
    last_journal_seq: int
