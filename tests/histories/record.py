"""Record the histories that replay must accept: `python -m tests.histories.record`.

Run it when a workflow was changed on purpose, in a way that running workflows don't have to
survive; a change that they do have to survive needs `workflow.patched` and keeps the histories.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import tempfile
from pathlib import Path

from temporalio.client import Client, WorkflowHistory
from temporalio.contrib.pydantic import pydantic_data_converter

from muster.devstack import Stack, StackOptions, TemporalChoice
from tests.histories.fingerprint import fingerprint
from tests.histories.recorded import FINGERPRINTS, FOLDER, readable
from tests.workflows.scenario import live
from tests.workflows.simulated_runtime import SimulatedRuntime
from tests.workflows.support import open_home, settings_of

IDENTITY = "recorder"
NAME = "recorded"


async def record(folder: Path) -> None:
    """Live a session's life on a server of its own and keep its histories beside this file."""
    options = StackOptions(
        data_dir=folder / "stack",
        temporal=TemporalChoice.SERVER,
        worker=False,
        ui=False,
        in_memory=True,
        temporal_port=0,
        ui_port=0,
        mongo_port=0,
        environ={"PATH": os.environ["PATH"], "HOME": os.environ["HOME"]},
    )
    async with Stack(options, lambda event: None) as stack:
        info = stack.describe()
        assert info.temporal is not None
        assert info.mongo is not None
        temporal = await Client.connect(
            info.temporal.address, data_converter=pydantic_data_converter, identity=IDENTITY
        )
        settings = settings_of(folder, info.mongo.uri, namespace=NAME, root=NAME, runtime_host=NAME)
        async with open_home(temporal, settings, folder / "work", SimulatedRuntime()) as home:
            lived = await live(home)
    await asyncio.to_thread(_write, lived.histories)


def _write(histories: dict[str, WorkflowHistory]) -> None:
    for name, history in sorted(histories.items()):
        _require_neutral(name, history)
    for name, history in sorted(histories.items()):
        (FOLDER / f"{name}.json").write_text(_compact(history))
        print(f"{name}: {len(history.events)} events of {history.workflow_id}")
    found = {name: fingerprint(history) for name, history in sorted(histories.items())}
    FINGERPRINTS.write_text(json.dumps(found, indent=1) + "\n")


def _compact(history: WorkflowHistory) -> str:
    kept = {"workflow_id": history.workflow_id, "history": json.loads(history.to_json())}
    return json.dumps(kept, separators=(",", ":"), sort_keys=True) + "\n"


def _require_neutral(name: str, history: WorkflowHistory) -> None:
    """A recording says nothing of the machine that made it."""
    here = (socket.gethostname(), str(Path.cwd()), str(Path.home()), tempfile.gettempdir() + "/")
    text = readable(history)
    found = [each for each in here if each in text]
    if found:
        raise SystemExit(f"{name} holds {', '.join(found)}; nothing was written")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as made:
        asyncio.run(record(Path(made)))
