"""Every timeout and retry policy by name, with how long it can take in all."""

from __future__ import annotations

from datetime import timedelta
from typing import TypedDict

from temporalio.common import Priority, RetryPolicy

TASK_TIMEOUT = timedelta(seconds=3)
"""A workflow task that dies with its worker is tried again after this; chosen for recovery."""

CLOSE_PRIORITY = Priority(priority_key=1)
PROMPT_PRIORITY = Priority(priority_key=2)
MAINTENANCE_PRIORITY = Priority(priority_key=5)

_BRISK = RetryPolicy(
    initial_interval=timedelta(milliseconds=50), maximum_interval=timedelta(seconds=2)
)
_LASTING = RetryPolicy(
    initial_interval=timedelta(milliseconds=50), maximum_interval=timedelta(seconds=30)
)
_PATIENT = RetryPolicy(
    initial_interval=timedelta(milliseconds=200), maximum_interval=timedelta(seconds=10)
)
_ONCE = RetryPolicy(maximum_attempts=1)


class _Policy(TypedDict, total=False):
    start_to_close_timeout: timedelta
    schedule_to_close_timeout: timedelta
    retry_policy: RetryPolicy


class LocalPolicy(_Policy, total=False):
    """Options of a local activity."""

    local_retry_threshold: timedelta


class RemotePolicy(_Policy, total=False):
    """Options of a regular activity."""

    heartbeat_timeout: timedelta
    priority: Priority


COMMIT = LocalPolicy(
    start_to_close_timeout=timedelta(seconds=10),
    schedule_to_close_timeout=timedelta(seconds=30),
    retry_policy=_BRISK,
)
"""A command's commit: 30 s in all, then its caller hears why it can't be written."""

RECORD = LocalPolicy(
    start_to_close_timeout=timedelta(seconds=10),
    retry_policy=_LASTING,
    local_retry_threshold=timedelta(seconds=2),
)
"""What must get on disk however long that takes: 10 s an attempt, without an end; longer waits are
timers, so that no workflow task is held open."""

PUBLISH = LocalPolicy(start_to_close_timeout=timedelta(seconds=10), retry_policy=_ONCE)
"""One attempt of 10 s; the workflow waits between attempts without holding up its commands."""

PUBLISH_BACKOFF = (1, 2, 5, 10, 30)
"""Seconds between attempts to publish; the last one repeats."""

PUBLISH_CLOSING_AFTER = timedelta(seconds=1)
"""How long a close may take before readers are told that it is under way."""

LAUNCH = RemotePolicy(
    start_to_close_timeout=timedelta(minutes=3),
    schedule_to_close_timeout=timedelta(minutes=10),
    heartbeat_timeout=timedelta(seconds=5),
    retry_policy=_PATIENT,
)
"""A launch: 3 minutes an attempt, 10 in all, then the creation is uncertain."""

LOOK_AGAIN = RemotePolicy(
    start_to_close_timeout=timedelta(minutes=3),
    heartbeat_timeout=timedelta(seconds=5),
    retry_policy=RetryPolicy(
        initial_interval=timedelta(seconds=5), maximum_interval=timedelta(minutes=1)
    ),
)
"""A launch whose outcome nobody knows: looked for once a minute, until it is known or decided."""

ADOPT = RemotePolicy(
    start_to_close_timeout=timedelta(seconds=30),
    schedule_to_close_timeout=timedelta(minutes=2),
    heartbeat_timeout=timedelta(seconds=5),
    retry_policy=_PATIENT,
)
"""A look-up for an operator: 30 s an attempt, 2 minutes in all, then it is uncertain again."""

RUNTIME_COMMAND = RemotePolicy(
    start_to_close_timeout=timedelta(seconds=60),
    heartbeat_timeout=timedelta(seconds=5),
    retry_policy=_PATIENT,
    priority=PROMPT_PRIORITY,
)
"""Deliver, answer, interrupt: each is repeatable by its key, so it is tried without an end."""

FOLLOW = RemotePolicy(
    start_to_close_timeout=timedelta(days=1),
    heartbeat_timeout=timedelta(seconds=5),
    retry_policy=_PATIENT,
    priority=PROMPT_PRIORITY,
)
"""A turn may take days: a day an attempt, without an end; a dead worker is noticed in 5 s."""

CLOSE_STEP = RemotePolicy(
    start_to_close_timeout=timedelta(minutes=5),
    heartbeat_timeout=timedelta(seconds=5),
    retry_policy=_PATIENT,
    priority=CLOSE_PRIORITY,
)
"""A step of a close: 5 minutes an attempt, without an end."""

CLOSE_RUNTIME = RemotePolicy(
    start_to_close_timeout=timedelta(minutes=2),
    schedule_to_close_timeout=timedelta(minutes=10),
    heartbeat_timeout=timedelta(seconds=5),
    retry_policy=_PATIENT,
    priority=CLOSE_PRIORITY,
)
"""The end of a runtime: 2 minutes an attempt, 10 in all, then the close is uncertain."""

ADMIT_CLOSE = RemotePolicy(
    start_to_close_timeout=timedelta(seconds=30),
    heartbeat_timeout=timedelta(seconds=5),
    retry_policy=_PATIENT,
    priority=CLOSE_PRIORITY,
)
"""The admission of a close: 30 s an attempt, until it is admitted or refused."""

MAINTENANCE = RemotePolicy(
    start_to_close_timeout=timedelta(minutes=5),
    heartbeat_timeout=timedelta(seconds=5),
    retry_policy=_PATIENT,
    priority=MAINTENANCE_PRIORITY,
)
"""A page of sessions or one repair: 5 minutes an attempt, without an end."""
