"""The floor: workflows with the same number and kind of steps as Muster's, which do nothing.

Each step stands where Muster's stands, also where two are under way at once, and has the same
options, so that a comparison is one of what happens inside the steps. The benches count both
histories and say so when they differ.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress

from temporalio import activity, workflow
from temporalio.client import Client
from temporalio.worker import Worker
from temporalio.workflow import ParentClosePolicy

with workflow.unsafe.imports_passed_through():
    from muster.domain.contract import Contract
    from muster.domain.control import MusterStatus
    from muster.worker.settings import WorkerSettings
    from muster.worker.wiring import HEARTBEAT_THROTTLE, STICKY_TIMEOUT, workflow_runner
    from muster.workflows import policies
    from muster.workflows.attributes import STATUS, details_table, session_attributes

PROMPT = "bare_prompt"
CREATE = "bare_create"
ADMIT = "bare_admit"
DRAIN = "bare_drain"
CLOSE = "bare_close"
ASK_SESSION = "bare_ask_session"
LOCAL = "bare_local"
REGULAR = "bare_regular"

READ = "read"
ACCEPTED = "accepted"
ENDED = "ended"
PUBLISHED = "published"
"""What the steps that do nothing are called, after Muster's."""


class Step(Contract):
    """A step's input and its result."""

    name: str = ""


class BareInput(Contract):
    """The input of each workflow."""

    session_id: str
    root_queue: str
    runtime_queue: str


@activity.defn(name=LOCAL)
async def bare_local(step: Step) -> Step:
    """Do nothing where Muster has a local activity."""
    return step


@activity.defn(name=REGULAR)
async def bare_regular(step: Step) -> Step:
    """Do nothing where Muster has a regular activity."""
    return step


class Ask(Contract):
    """Which update of which session."""

    session_id: str
    update: str


@activity.defn(name=ASK_SESSION)
async def bare_ask_session(ask: Ask) -> Step:
    """Send the session's workflow an update, as two steps of a close do."""
    handle = activity.client().get_workflow_handle(f"bare-session/{ask.session_id}")
    answer: Step = await handle.execute_update(ask.update, Step(), result_type=Step)
    return answer


async def _local(name: str) -> Step:
    done: Step = await workflow.execute_local_activity(
        LOCAL, Step(name=name), result_type=Step, summary=name, **policies.RECORD
    )
    return done


def _regular(name: str, queue: str, policy: policies.RemotePolicy) -> workflow.ActivityHandle[Step]:
    return workflow.start_activity(
        REGULAR,
        Step(name=name),
        result_type=Step,
        task_queue=queue,
        summary=name,
        **policy,
    )


def _show(status: MusterStatus) -> None:
    workflow.set_current_details(details_table({"status": status.value}))
    workflow.upsert_search_attributes([STATUS.value_set(status.value)])


async def _leaves_soon(leaves: Callable[[], bool]) -> None:
    with suppress(TimeoutError):
        await workflow.wait_condition(
            leaves, timeout=policies.PUBLISH_CLOSING_AFTER, timeout_summary="closing"
        )


@workflow.defn(name="BareCreate")
class BareCreate:
    """The steps of a creation: claim, launch, record, child."""

    @workflow.init
    def __init__(self, given: BareInput) -> None:
        self._answer: Step | None = None

    @workflow.run
    async def run(self, given: BareInput) -> Step:
        """Take the steps."""
        _show(MusterStatus.WORKING)
        await _local("claimed")
        await _regular("launched", given.runtime_queue, policies.LAUNCH)
        answer = await _local("recorded")
        await workflow.start_child_workflow(
            BareSession.run,
            given,
            id=f"bare-session/{given.session_id}",
            task_queue=given.root_queue,
            task_timeout=policies.TASK_TIMEOUT,
            parent_close_policy=ParentClosePolicy.ABANDON,
            priority=policies.PROMPT_PRIORITY,
            static_summary=f"session {given.session_id}",
            static_details="nothing",
            search_attributes=session_attributes(
                "bench", given.session_id, MusterStatus.WAITING, workflow.now()
            ),
        )
        _show(MusterStatus.DONE)
        self._answer = answer
        await workflow.wait_condition(workflow.all_handlers_finished)
        return answer

    @workflow.update(name=CREATE)
    async def create(self, command: Step) -> Step:
        """Answer once the steps are taken."""
        await workflow.wait_condition(lambda: self._answer is not None)
        assert self._answer is not None
        return self._answer


@workflow.defn(name="BareSession")
class BareSession:
    """The steps of a session: read, publish, and those of each prompt."""

    @workflow.init
    def __init__(self, given: BareInput) -> None:
        self._queue = given.runtime_queue
        self._active = False
        self._to_publish = False
        self._closing = False
        self._leaving = False

    @workflow.run
    async def run(self, given: BareInput) -> None:
        """Serve until it is closed."""
        await _local(READ)
        self._to_publish = True
        await asyncio.gather(self._turns(), self._publication())
        await workflow.wait_condition(workflow.all_handlers_finished)
        _show(MusterStatus.DONE)

    @workflow.update(name=PROMPT)
    async def prompt(self, command: Step) -> Step:
        """Accept, and have the turn run."""
        accepted = await _local(ACCEPTED)
        _show(MusterStatus.WORKING)
        self._active = True
        return accepted

    @workflow.update(name=ADMIT)
    async def admit(self, command: Step) -> Step:
        """Admit a close."""
        admitted = await _local("admitted")
        _show(MusterStatus.CLOSING)
        self._closing = True
        return admitted

    @workflow.update(name=DRAIN)
    async def drain(self, command: Step) -> Step:
        """Answer; the workflow ends then."""
        self._leaving = True
        return command

    async def _turns(self) -> None:
        while True:
            await workflow.wait_condition(lambda: self._active or self._leaving)
            if self._leaving:
                return
            await _regular("deliver", self._queue, policies.RUNTIME_COMMAND)
            await _regular("follow", self._queue, policies.FOLLOW)
            await _local(ENDED)
            _show(MusterStatus.WAITING)
            self._active, self._to_publish = False, True

    async def _publication(self) -> None:
        while True:
            await workflow.wait_condition(
                lambda: self._to_publish or self._closing or self._leaving
            )
            if self._closing:
                await _leaves_soon(lambda: self._leaving)
            if self._leaving:
                return
            self._to_publish = False
            await _local(PUBLISHED)


@workflow.defn(name="BareClose")
class BareClose:
    """The steps of a close: admission, the runtime's end, drain, removal."""

    @workflow.init
    def __init__(self, given: BareInput) -> None:
        self._answer: Step | None = None

    @workflow.run
    async def run(self, given: BareInput) -> Step:
        """Take the steps."""
        _show(MusterStatus.CLOSING)
        await _ask_session(given, ADMIT, policies.ADMIT_CLOSE)
        await _regular("close runtime", given.runtime_queue, policies.CLOSE_RUNTIME)
        await _ask_session(given, DRAIN, policies.CLOSE_STEP)
        answer = await _regular("remove", given.root_queue, policies.CLOSE_STEP)
        _show(MusterStatus.DONE)
        self._answer = answer
        await workflow.wait_condition(workflow.all_handlers_finished)
        return answer

    @workflow.update(name=CLOSE)
    async def close(self, command: Step) -> Step:
        """Answer once the steps are taken."""
        await workflow.wait_condition(lambda: self._answer is not None)
        assert self._answer is not None
        return self._answer


async def _ask_session(given: BareInput, update: str, policy: policies.RemotePolicy) -> None:
    await workflow.execute_activity(
        ASK_SESSION,
        Ask(session_id=given.session_id, update=update),
        result_type=Step,
        summary=update,
        **policy,
    )


def bare_queues(settings: WorkerSettings) -> tuple[str, str]:
    """The queues of the bare workflows and of their regular activities."""
    return f"bare-{settings.root}", f"bare-runtime-{settings.runtime_host}"


def bare_workers(client: Client, settings: WorkerSettings) -> Sequence[Worker]:
    """Workers with the options of Muster's, for a process that has both."""
    root, runtime = bare_queues(settings)
    return (
        Worker(
            client,
            task_queue=root,
            workflows=[BareCreate, BareSession, BareClose],
            activities=[bare_local, bare_regular, bare_ask_session],
            workflow_runner=workflow_runner("bench"),
            max_cached_workflows=settings.cached_workflows,
            sticky_queue_schedule_to_start_timeout=STICKY_TIMEOUT,
            max_concurrent_local_activities=settings.max_threads // 2,
        ),
        Worker(
            client,
            task_queue=runtime,
            activities=[bare_regular],
            max_heartbeat_throttle_interval=HEARTBEAT_THROTTLE,
        ),
    )
