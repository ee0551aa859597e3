"""What a bench's worker counts and times, without a change to what it measures."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

import temporalio.client
import temporalio.worker
from pymongo import monitoring
from temporalio import activity

from muster.domain.contract import Contract, parse_time
from muster.domain.contracts import CommitRequest
from muster.domain.runtime import (
    AnswerCommand,
    AnswerReceipt,
    Closed,
    CloseRequest,
    DeliverReceipt,
    DeliverRequest,
    FollowRequest,
    FollowResult,
    InterruptRequest,
    Launched,
    LaunchFound,
    LaunchRequest,
    TurnEnded,
)
from muster.runtimes.protocol import AgentRuntime
from muster.stores.files.calls import Call, FileCalls, T


class Span(Contract):
    """Something that was done, with seconds of the wall clock."""

    kind: str
    """`activity` or `runtime`."""
    name: str
    workflow: str
    """The workflow's id; for a runtime call the session's id."""
    began: float
    ended: float
    fsyncs: int = 0
    commands: int = 0
    agent_ended: float | None = None
    """When the agent said that its turn ended, for the call that heard of it."""


class Snapshot(Contract):
    """Counts since the worker's start, and the spans since the last snapshot."""

    fsyncs: int
    file_calls: int
    mongo: dict[str, int]
    spans: tuple[Span, ...]


@dataclass
class _Own:
    """What one activity has caused so far."""

    fsyncs: int = 0
    commands: int = 0


_own: ContextVar[_Own | None] = ContextVar("own", default=None)
"""Threads that an activity works in, and the driver, see their activity's."""


@dataclass
class Probe:
    """Collects from everywhere in the process."""

    calls: Counter[str] = field(default_factory=Counter)
    commands: Counter[str] = field(default_factory=Counter)
    spans: list[Span] = field(default_factory=list)
    guard: threading.Lock = field(default_factory=threading.Lock)

    def count_call(self, name: str) -> None:
        """One file call."""
        own = _own.get()
        with self.guard:
            self.calls[name] += 1
            if own is not None and name == "fsync":
                own.fsyncs += 1

    def count_command(self, name: str) -> None:
        """One MongoDB command."""
        own = _own.get()
        with self.guard:
            self.commands[name] += 1
            if own is not None:
                own.commands += 1

    def add(self, span: Span) -> None:
        """One span."""
        with self.guard:
            self.spans.append(span)

    def snapshot(self) -> Snapshot:
        """What there is; the spans are handed over."""
        with self.guard:
            spans, self.spans = tuple(self.spans), []
            return Snapshot(
                fsyncs=self.calls["fsync"],
                file_calls=sum(self.calls.values()),
                mongo=dict(self.commands),
                spans=spans,
            )


class CountedCalls(FileCalls):
    """The real file calls, counted."""

    def __init__(self, probe: Probe) -> None:
        self._probe = probe

    def perform(self, call: Call, action: Callable[[], T]) -> T:
        self._probe.count_call(call.name)
        return action()


class CountedCommands(monitoring.CommandListener):
    """MongoDB commands by name."""

    def __init__(self, probe: Probe) -> None:
        self._probe = probe

    def started(self, event: monitoring.CommandStartedEvent) -> None:
        """Count it."""
        self._probe.count_command(event.command_name)

    def succeeded(self, event: monitoring.CommandSucceededEvent) -> None:
        """Nothing to add."""

    def failed(self, event: monitoring.CommandFailedEvent) -> None:
        """Nothing to add."""


class TimedActivities(temporalio.client.Interceptor, temporalio.worker.Interceptor):
    """A span for each activity, local and regular."""

    def __init__(self, probe: Probe) -> None:
        self._probe = probe

    def intercept_activity(
        self,
        next: temporalio.worker.ActivityInboundInterceptor,  # noqa: A002
    ) -> temporalio.worker.ActivityInboundInterceptor:
        return _TimedActivity(next, self._probe)


class _TimedActivity(temporalio.worker.ActivityInboundInterceptor):
    def __init__(
        self, following: temporalio.worker.ActivityInboundInterceptor, probe: Probe
    ) -> None:
        super().__init__(following)
        self._probe = probe

    async def execute_activity(self, input: temporalio.worker.ExecuteActivityInput) -> Any:  # noqa: A002
        info, began, own = activity.info(), time.time(), _Own()
        _own.set(own)
        try:
            return await self.next.execute_activity(input)
        finally:
            given = input.args[0] if input.args else None
            name = given.change.type if isinstance(given, CommitRequest) else info.activity_type
            # A step that does nothing is named by what stands in its place.
            name = getattr(given, "name", "") or name
            self._probe.add(
                Span(
                    kind="activity",
                    name=name,
                    workflow=info.workflow_id or "",
                    began=began,
                    ended=time.time(),
                    fsyncs=own.fsyncs,
                    commands=own.commands,
                )
            )


class TimedRuntime:
    """A runtime with a span for each call that is on the way of a creation or a prompt."""

    def __init__(self, runtime: AgentRuntime, probe: Probe) -> None:
        self._runtime = runtime
        self._probe = probe

    async def find_launch(self, request: LaunchRequest) -> LaunchFound:
        """As the runtime does."""
        return await self._runtime.find_launch(request)

    async def launch(self, request: LaunchRequest) -> Launched:
        """As the runtime does."""
        began = time.time()
        launched = await self._runtime.launch(request)
        self._add("launch", request.session_id, began)
        return launched

    async def deliver(self, request: DeliverRequest) -> DeliverReceipt:
        """As the runtime does."""
        began = time.time()
        receipt = await self._runtime.deliver(request)
        self._add("deliver", request.endpoint.session_id, began)
        return receipt

    async def follow(self, request: FollowRequest) -> FollowResult:
        """As the runtime does; says when the agent ended its turn."""
        began = time.time()
        result = await self._runtime.follow(request)
        ends = [each.at for each in result.events if isinstance(each, TurnEnded)]
        at = parse_time(ends[-1]).timestamp() if ends else None
        self._add("follow", request.endpoint.session_id, began, at)
        return result

    async def answer(self, request: AnswerCommand) -> AnswerReceipt:
        """As the runtime does."""
        return await self._runtime.answer(request)

    async def interrupt(self, request: InterruptRequest) -> None:
        """As the runtime does."""
        await self._runtime.interrupt(request)

    async def close(self, request: CloseRequest) -> Closed:
        """As the runtime does."""
        return await self._runtime.close(request)

    def _add(self, name: str, session: str, began: float, agent: float | None = None) -> None:
        span = Span(
            kind="runtime",
            name=name,
            workflow=session,
            began=began,
            ended=time.time(),
            agent_ended=agent,
        )
        self._probe.add(span)
