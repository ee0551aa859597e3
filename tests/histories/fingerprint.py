"""What a workflow decided, one line a decision: readable, and the same for the same code."""

from __future__ import annotations

import json

from temporalio.api.history.v1 import HistoryEvent
from temporalio.client import WorkflowHistory

_PLAIN = {
    "activity_task_cancel_requested_event_attributes": "cancel an activity",
    "timer_started_event_attributes": "timer",
    "timer_canceled_event_attributes": "cancel a timer",
    "upsert_workflow_search_attributes_event_attributes": "search attributes",
    "workflow_execution_update_accepted_event_attributes": "accept an update",
    "workflow_execution_update_completed_event_attributes": "answer an update",
    "workflow_execution_continued_as_new_event_attributes": "continue as new",
    "workflow_execution_completed_event_attributes": "complete",
    "workflow_execution_failed_event_attributes": "fail",
}


def fingerprint(history: WorkflowHistory) -> list[str]:
    """The workflow's decisions in their order, with what each is about."""
    return [line for each in history.events if (line := _decision(each)) is not None]


def _decision(event: HistoryEvent) -> str | None:
    kind = event.WhichOneof("attributes") or ""
    match kind:
        case "marker_recorded_event_attributes":
            return f"local activity {_local_activity(event)}"
        case "activity_task_scheduled_event_attributes":
            attributes = event.activity_task_scheduled_event_attributes
            return f"activity {attributes.activity_type.name}"
        case "start_child_workflow_execution_initiated_event_attributes":
            child = event.start_child_workflow_execution_initiated_event_attributes
            return f"child {child.workflow_type.name}"
    return _PLAIN.get(kind)


def _local_activity(event: HistoryEvent) -> str:
    data = event.marker_recorded_event_attributes.details["data"].payloads[0].data
    return str(json.loads(data)["activity_type"])
