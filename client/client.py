"""The typed client: every verb on a session, from Python."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from datetime import timedelta
from typing import Self, TypeVar

from temporalio.client import Client, WorkflowHandle, WorkflowUpdateStage

from muster.client import requests
from muster.client.connection import Servers, choose_servers, connect_temporal
from muster.client.ended import reason_of_end
from muster.client.failures import coded
from muster.client.reading import SessionReader
from muster.client.sending import send
from muster.client.settings import ClientSettings, load_settings
from muster.client.starting import closing_start, creation_start
from muster.client.waiting import Awaited, OnChange, Waiter
from muster.domain.changes import AnswerClaimed, OperationDone, PromptAccepted
from muster.domain.closing import CloseAnswer
from muster.domain.contract import Contract
from muster.domain.contracts import SessionRef, Updates
from muster.domain.control import ControlState
from muster.domain.creation import CreateAnswer, CreateSpec
from muster.domain.errors import MusterError
from muster.domain.identifiers import (
    check_namespace,
    check_session_id,
    create_workflow_id,
    session_workflow_id,
)
from muster.domain.session_document import PromptOperation
from muster.domain.summaries import SessionSummary
from muster.domain.turn_model import Content
from muster.domain.view import TurnView
from muster.stores.documents.connection import connect
from muster.stores.documents.content import Contents

T = TypeVar("T", bound=Contract)

REVISION_SECONDS = 2.0
"""How long a wait asks for the newest revision before it takes what readers see."""

_NOT_READ_YET_SECONDS = 0.1
"""Until a session's workflow that has just begun is asked again."""


class CreationStarted(Contract):
    """A creation that is on its way; the same key hears its answer."""

    workflow_id: str
    session_id: str
    key: str


class MusterClient:
    """Sessions of one namespace.

    A context manager that connects on first use: reading needs MongoDB alone, commands need
    Temporal and a worker. Each method that changes something takes the caller's `key`: the same
    key and request get the first answer, the same key and another request an
    `IdempotencyConflict`. Without a key every call is a request of its own.

    All methods raise subclasses of `MusterError`.

    Args:
        settings: Instead of the environment's.
        servers: Instead of those that `choose_servers` finds.
        temporal: A connected client with the pydantic data converter, instead of an own one.
    """

    def __init__(
        self,
        settings: ClientSettings | None = None,
        *,
        servers: Servers | None = None,
        temporal: Client | None = None,
    ) -> None:
        self.settings = settings or load_settings()
        self.namespace = check_namespace(self.settings.namespace)
        self.servers = servers or choose_servers(self.settings)
        self._temporal = temporal
        self._connecting = asyncio.Lock()
        self._mongo = connect(self.servers.mongo_uri, self.settings.mongo_database)
        self.sessions = SessionReader(self._mongo, self.namespace)
        self._waiter = Waiter(self.sessions, self._revision)
        self._open = AsyncExitStack()
        self._open.push_async_callback(self._mongo.close)

    @classmethod
    async def connect(cls, settings: ClientSettings | None = None) -> Self:
        """A client whose Temporal server answers; end it with `disconnect`."""
        client = cls(settings)
        try:
            await client.temporal()
        except MusterError:
            await client.disconnect()
            raise
        return client

    async def disconnect(self) -> None:
        """End the connections; what was sent is carried out all the same."""
        await self._open.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.disconnect()

    async def temporal(self) -> Client:
        """The Temporal client, connected at the first call."""
        async with self._connecting:
            if self._temporal is None:
                self._temporal = await connect_temporal(self.servers)
            return self._temporal

    async def content(self, text: str) -> Content:
        """A prompt as a command carries it; a long one is stored first, complete and confirmed."""
        content = requests.prompt_content(text)
        if content.truncated:
            await Contents(self._mongo).stage([text.encode()])
        return content

    async def create(
        self, spec: CreateSpec, *, key: str | None = None, within: float | None = None
    ) -> CreateAnswer:
        """Create a session once for `key` and wait until it can be used.

        Args:
            within: Seconds to wait; the settings' time limit by default.
        """
        key = key or requests.new_key()
        command = requests.create_command(self.namespace, key, spec)
        client = await self.temporal()

        async def attempt() -> CreateAnswer:
            answer: CreateAnswer = await client.execute_update_with_start_workflow(
                Updates.CREATE,
                command,
                start_workflow_operation=creation_start(command, self.settings.placement),
                result_type=CreateAnswer,
            )
            return answer

        return await self._answered(attempt, within, f"Create again with key {key}")

    async def start_creation(
        self, spec: CreateSpec, *, key: str | None = None, within: float | None = None
    ) -> CreationStarted:
        """Create a session once for `key`, returning as soon as the creation is accepted."""
        key = key or requests.new_key()
        command = requests.create_command(self.namespace, key, spec)
        client = await self.temporal()

        async def attempt() -> CreationStarted:
            await client.start_update_with_start_workflow(
                Updates.CREATE,
                command,
                start_workflow_operation=creation_start(command, self.settings.placement),
                wait_for_stage=WorkflowUpdateStage.ACCEPTED,
                result_type=CreateAnswer,
            )
            workflow_id = create_workflow_id(self.namespace, command.key_digest)
            return CreationStarted(workflow_id=workflow_id, session_id=command.session_id, key=key)

        return await self._answered(attempt, within, f"Create again with key {key}")

    async def send(
        self,
        session: str,
        text: str,
        *,
        operation: PromptOperation = "turn.prompt",
        key: str | None = None,
        source: str = "client",
        within: float | None = None,
    ) -> PromptAccepted:
        """Hand a prompt to a session; returns once it is on record and will get its turn."""
        key = key or requests.new_key()
        content = await self.content(text)
        command = requests.prompt_command(self.namespace, session, key, content, operation, source)
        return await self._update(session, Updates.PROMPT, command, PromptAccepted, key, within)

    async def answer(
        self,
        session: str,
        question: str,
        option: str | None,
        *,
        key: str | None = None,
        source: str = "client",
        within: float | None = None,
    ) -> AnswerClaimed:
        """Answer a question with one of its option ids, or with None to cancel it."""
        key = key or requests.new_key()
        command = requests.answer_command(self.namespace, session, key, question, option, source)
        return await self._update(session, Updates.ANSWER, command, AnswerClaimed, key, within)

    async def stop(
        self,
        session: str,
        *,
        keep_queue: bool = False,
        turn: str | None = None,
        key: str | None = None,
        within: float | None = None,
    ) -> OperationDone:
        """Cancel the running turn (only `turn`, if given) and what is queued behind it."""
        key = key or requests.new_key()
        command = requests.stop_command(
            self.namespace, session, key, keep_queue=keep_queue, turn=turn
        )
        return await self._update(session, Updates.STOP, command, OperationDone, key, within)

    async def cancel_turn(
        self, session: str, turn: str, *, key: str | None = None, within: float | None = None
    ) -> OperationDone:
        """Take a queued turn out of the queue; one that has ended already is a success."""
        key = key or requests.new_key()
        command = requests.cancel_command(self.namespace, session, key, turn)
        return await self._update(session, Updates.CANCEL_TURN, command, OperationDone, key, within)

    async def report(
        self,
        session: str,
        status: str,
        summary: str,
        *,
        turn: str | None = None,
        key: str | None = None,
        within: float | None = None,
    ) -> OperationDone:
        """File a statement about a session or one of its turns."""
        key = key or requests.new_key()
        command = requests.report_command(self.namespace, session, key, status, summary, turn=turn)
        return await self._update(session, Updates.REPORT, command, OperationDone, key, within)

    async def close(
        self,
        session: str,
        *,
        incarnation: str | None = None,
        force: bool = False,
        keep_history: bool = False,
        idle_for: timedelta | None = None,
        key: str | None = None,
        within: float | None = None,
    ) -> CloseAnswer:
        """End a session's agent and remove the session.

        Args:
            incarnation: Which life of the session; the one on record by default.
            force: Settle a running turn and the queue instead of refusing.
            keep_history: Leave what its turns and reports were.
            idle_for: Refuse if there was activity more recently.
            key: By default the one of this incarnation: a second close hears the first's answer.
        """
        incarnation = incarnation or await self.sessions.incarnation(session)
        ref = SessionRef(namespace_id=self.namespace, session_id=session, incarnation=incarnation)
        command = requests.close_command(
            ref, key, force=force, keep_history=keep_history, idle_for=idle_for
        )
        client = await self.temporal()

        async def attempt() -> CloseAnswer:
            answer: CloseAnswer = await client.execute_update_with_start_workflow(
                Updates.CLOSE,
                command,
                start_workflow_operation=closing_start(command, self.settings.placement),
                result_type=CloseAnswer,
            )
            return answer

        return await self._answered(attempt, within, "Close again")

    async def wait(
        self,
        session: str,
        awaited: Awaited | str = Awaited.IDLE,
        *,
        within: float | None = None,
        on_change: OnChange | None = None,
    ) -> SessionSummary:
        """Wait until a session is idle, asks a question, or is closed; see `Waiter.until`."""
        return await self._waiter.until(
            session, Awaited(awaited), within=within, on_change=on_change
        )

    async def wait_turn(
        self,
        session: str,
        turn: str,
        *,
        within: float | None = None,
        on_change: OnChange | None = None,
    ) -> TurnView:
        """Wait until a turn has ended; see `Waiter.turn`."""
        return await self._waiter.turn(session, turn, within=within, on_change=on_change)

    def changes(self, session: str) -> AsyncIterator[SessionSummary]:
        """A session's summary now and whenever it has changed, until it is closed."""
        return self._waiter.changes(session)

    async def control(self, session: str) -> ControlState:
        """The state that the session's workflow works from; needs a worker."""
        return await self._control(session, self.settings.timeout_seconds)

    async def _control(self, session: str, within: float) -> ControlState:
        handle = await self._session(session)
        try:
            async with asyncio.timeout(within):
                while True:
                    state: ControlState | None = await handle.query(
                        Updates.CONTROL,
                        result_type=ControlState | None,  # type: ignore[arg-type]
                        rpc_timeout=timedelta(seconds=within),
                    )
                    if state is not None:
                        return state
                    await asyncio.sleep(_NOT_READ_YET_SECONDS)
        except Exception as error:
            raise coded(error) from error

    async def _revision(self, session: str) -> int:
        try:
            return (await self._control(session, REVISION_SECONDS)).revision
        except MusterError:
            return 0

    async def _update(
        self,
        session: str,
        update: Updates,
        command: Contract,
        answer: type[T],
        key: str,
        within: float | None,
    ) -> T:
        handle = await self._session(session)

        async def attempt() -> T:
            result: T = await handle.execute_update(update, command, result_type=answer)
            return result

        repeat = f"Send it again with key {key}"
        gone = reason_of_end(await self.temporal(), handle.id, self.namespace, session)
        return await self._answered(attempt, within, repeat, gone)

    async def _answered(
        self,
        attempt: Callable[[], Awaitable[T]],
        within: float | None,
        repeat: str,
        gone: Callable[[], Awaitable[MusterError | None]] | None = None,
    ) -> T:
        return await send(
            await self.temporal(),
            attempt,
            queue=self.settings.placement.root_queue,
            within=within or self.settings.timeout_seconds,
            repeat=repeat,
            gone=gone,
        )

    async def _session(self, session: str) -> WorkflowHandle[object, object]:
        workflow_id = session_workflow_id(self.namespace, check_session_id(session))
        return (await self.temporal()).get_workflow_handle(workflow_id)
