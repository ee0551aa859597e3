"""What the histories of the demo's workflows say ran how often."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field

from temporalio.api.common.v1 import Payload
from temporalio.api.history.v1 import HistoryEvent
from temporalio.client import Client


@dataclass(slots=True)
class Ran:
    """One kind of activity in one workflow."""

    activity: str
    local: bool
    times: int = 0
    attempts: int = 0
    """All tries together: more than `times` where one was tried again."""


@dataclass(slots=True)
class Evidence:
    """One workflow's history, counted."""

    workflow_id: str
    events: int = 0
    ran: dict[str, Ran] = field(default_factory=dict)

    def times(self, activity: str) -> int:
        """How often an activity was carried out."""
        return self.ran[activity].times if activity in self.ran else 0

    def add(self, activity: str, attempts: int, *, local: bool) -> None:
        """Count one activity."""
        found = self.ran.setdefault(activity, Ran(activity, local))
        found.times += 1
        found.attempts += attempts


async def evidence(client: Client, workflow_id: str) -> Evidence:
    """Count what a workflow's last run did."""
    history = await client.get_workflow_handle(workflow_id).fetch_history()
    return count(workflow_id, history.events)


def count(workflow_id: str, events: Iterable[HistoryEvent]) -> Evidence:
    """Count activities and their attempts in a history."""
    found = Evidence(workflow_id)
    names: dict[int, str] = {}
    attempts: dict[int, int] = {}
    for event in events:
        found.events += 1
        if event.HasField("activity_task_scheduled_event_attributes"):
            scheduled = event.activity_task_scheduled_event_attributes
            names[event.event_id] = scheduled.activity_type.name
        elif event.HasField("activity_task_started_event_attributes"):
            started = event.activity_task_started_event_attributes
            attempts[started.scheduled_event_id] = started.attempt
        elif event.HasField("marker_recorded_event_attributes"):
            data = event.marker_recorded_event_attributes.details.get("data")
            for payload in data.payloads if data else ():
                _add_local(found, payload)
    for scheduled_id, name in names.items():
        found.add(name, attempts.get(scheduled_id, 1), local=False)
    return found


def _add_local(found: Evidence, payload: Payload) -> None:
    """A local activity leaves a marker that names it."""
    try:
        marker = json.loads(payload.data)
    except ValueError:
        return
    name = marker.get("activity_type") if isinstance(marker, dict) else None
    if isinstance(name, str):
        found.add(name, int(marker.get("attempt") or 1), local=True)
