"""The recorded histories, as files beside this one."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

from temporalio.client import WorkflowHistory

FOLDER = Path(__file__).parent
FINGERPRINTS = FOLDER / "fingerprints.json"
NAMES = sorted(each.stem for each in FOLDER.glob("*.json") if each != FINGERPRINTS)


def load(name: str) -> WorkflowHistory:
    """A recorded history by its name."""
    kept = json.loads((FOLDER / f"{name}.json").read_text())
    return WorkflowHistory.from_json(kept["workflow_id"], kept["history"])


def load_fingerprints() -> dict[str, list[str]]:
    """What each recorded workflow decided."""
    found: dict[str, list[str]] = json.loads(FINGERPRINTS.read_text())
    return found


def readable(history: WorkflowHistory) -> str:
    """A history with its payloads as text."""
    return json.dumps(_decoded(json.loads(history.to_json())))


def _decoded(value: Any) -> Any:
    if isinstance(value, list):
        return [_decoded(each) for each in value]
    if not isinstance(value, dict):
        return value
    if set(value) >= {"data", "metadata"}:
        return base64.b64decode(value["data"]).decode(errors="replace")
    return {name: _decoded(each) for name, each in value.items()}
