"""`muster session create --file`: every field of a creation, and unknown ones by their names."""

from __future__ import annotations

from pathlib import Path

import yaml

from muster.client.local_stack import StackInfo
from muster.domain.creation import CreateSpec, CreationReceipt
from muster.runtimes.signing import generate_key
from tests.client.conftest import Command

EVERYTHING = {
    "kind": "register",
    "session_id": "from-a-file",
    "cwd": "work",
    "title": "Everything",
    "mpreset": "careful",
    "source": "a file",
    "model": "large",
    "tmux": {"session": "main", "pane": "%1"},
    "workspace": "w-1",
    "ephemeral": True,
    "visible": False,
    "runtime": "acp",
    "command": ["agent", "--acp"],
    "environment": {"COLOUR": "green"},
    "endpoint": {
        "endpoint_url": "acp:elsewhere",
        "endpoint_incarnation": "inc-elsewhere",
        "endpoint_generation": 2,
        "verifier": generate_key().verifier.model_dump(),
    },
    "initial_state": "prepared",
    "initial_events": [{"kind": "import", "payload": {"from": "elsewhere"}}],
    "policy": {"queue_limit": 3},
}


async def test_a_file_says_everything_about_a_creation_and_options_come_first(
    muster: Command, stack: StackInfo, folder: Path, tmp_path: Path
) -> None:
    not_in_a_registration = {"workflow", "initial_prompt"}
    assert set(EVERYTHING) | not_in_a_registration == set(CreateSpec.model_fields)
    file = tmp_path / "spec.yaml"
    file.write_text(yaml.safe_dump(EVERYTHING))
    arguments = ("session", "create", "--file", str(file), "--title", "First", "--key", "k")
    said = await muster(*arguments, "--json")
    assert said.status == 0, said
    (receipt,) = (
        found
        for path in Path(stack.state_root).glob("v2/*/creations/*/*.json")
        for found in [CreationReceipt.model_validate_json(path.read_bytes())]
        if found.session_id == "from-a-file"
    )
    wanted = {**EVERYTHING, "cwd": str(folder), "title": "First"}
    assert receipt.request == CreateSpec.model_validate(wanted)
    assert (await muster(*arguments, "--json")).json == said.json
    other = await muster(*arguments, "--model", "small")
    assert other.status == 5
    assert "model differs" in other.err


async def test_a_delegate_s_file_names_its_workflow_and_prompt(
    muster: Command, folder: Path, tmp_path: Path
) -> None:
    file = tmp_path / "spec.yaml"
    prompt = "#!muster no-permission\\necho planned > plan.txt"
    file.write_text(f'cwd: work\nkind: delegate\nworkflow: plan\ninitial_prompt: "{prompt}"\n')
    said = await muster("session", "create", "--file", str(file), "--json")
    assert said.status == 0, said
    assert said.json["kind"] == "delegate"
    session = said.json["session_id"]
    assert (
        await muster("session", "wait", session, "--for", "idle", "--timeout", "60s")
    ).status == 0
    assert (folder / "plan.txt").read_text() == "planned\n"
    assert (await muster("session", "close", session)).status == 0


async def test_what_a_file_says_that_no_creation_has_is_named(
    command: Command, tmp_path: Path
) -> None:
    (tmp_path / "spec.yaml").write_text("cwd: .\ncolour: green\npolicy: {patience: 3}\n")
    said = await command("session", "create", "--file", "spec.yaml")
    assert said.status == 2
    assert "colour" in said.err
    assert "policy.patience" in said.err
