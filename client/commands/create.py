"""`muster session create`."""

from __future__ import annotations

import os
import shlex
import socket
from pathlib import Path
from typing import Annotated, Any

import typer
import yaml

from muster.client.commands.options import KeyOption, TimeoutOption, chosen_text, read_text
from muster.client.durations import seconds
from muster.client.requests import new_key
from muster.client.verb import Call, verb
from muster.domain.creation import CreateSpec
from muster.domain.errors import InvalidInput, WorkingDirectoryUnusable


def register(app: typer.Typer) -> None:
    """Add the verb."""
    verb(app, "create")(create)


async def create(
    call: Call,
    cwd: Annotated[
        Path | None,
        typer.Option("--cwd", help="The session's working directory.", show_default="."),
    ] = None,
    kind: Annotated[
        str | None,
        typer.Option("--kind", help="start, delegate or register.", show_default="start"),
    ] = None,
    workflow: Annotated[
        str | None,
        typer.Option("--workflow", help="What a delegate does: plan or execute."),
    ] = None,
    session_id: Annotated[
        str | None,
        typer.Option("--session-id", help="The session's id.", show_default="from the key"),
    ] = None,
    title: Annotated[str | None, typer.Option("--title", help="What lists show.")] = None,
    model: Annotated[str | None, typer.Option("--model", help="The agent's model.")] = None,
    agent: Annotated[
        str | None,
        typer.Option(
            "--agent",
            metavar="COMMAND",
            help="An ACP agent's command line.",
            show_default="the scripted agent",
        ),
    ] = None,
    prompt: Annotated[
        str | None, typer.Option("--prompt", help="The first prompt; - reads standard input.")
    ] = None,
    file: Annotated[
        Path | None,
        typer.Option("--file", help="The whole of it in YAML or JSON; options come first."),
    ] = None,
    key: KeyOption = None,
    wait: Annotated[
        bool, typer.Option("--wait/--no-wait", help="Wait until the session can be used.")
    ] = True,
    within: TimeoutOption = None,
) -> None:
    """Create a session, once for its key."""
    given = {
        "kind": kind,
        "workflow": workflow,
        "session_id": session_id,
        "title": title,
        "model": model,
        "command": _command_line(agent),
    }
    fields = _from_file(file) | {name: each for name, each in given.items() if each is not None}
    first = chosen_text(prompt, None, what="the prompt")
    if first is not None:
        fields["initial_prompt"] = first
    fields["cwd"] = _directory(call, cwd, fields.get("cwd"), file)
    if isinstance(fields.get("initial_prompt"), str):
        fields["initial_prompt"] = await call.client.content(fields["initial_prompt"])
    spec = CreateSpec.model_validate(fields)
    key = key or new_key()
    limit = seconds(within)
    if not wait:
        started = await call.client.start_creation(spec, key=key, within=limit)
        shown = f"session [bold]{started.session_id}[/] is being created by {started.workflow_id}"
        call.out.result(started, name=started.session_id, shown=shown)
    else:
        answer = await call.client.create(spec, key=key, within=limit)
        call.out.result(
            {**answer.model_dump(mode="json"), "key": key},
            name=answer.session_id,
            shown=f"session [bold]{answer.session_id}[/] is ready in {spec.cwd}",
        )
    call.out.note(f"key {key}")


def _command_line(text: str | None) -> list[str] | None:
    try:
        return shlex.split(text) if text else None
    except ValueError as error:
        raise InvalidInput(f"--agent isn't a command line: {error}") from error


def _from_file(path: Path | None) -> dict[str, Any]:
    if path is None:
        return {}
    try:
        found = yaml.safe_load(read_text(path))
    except yaml.YAMLError as error:
        raise InvalidInput(f"{path} isn't YAML: {' '.join(str(error).split())}") from error
    if not isinstance(found, dict):
        raise InvalidInput(f"{path} doesn't hold a mapping of fields such as cwd and title")
    return {str(name): value for name, value in found.items()}


def _directory(call: Call, given: Path | None, written: object, file: Path | None) -> str:
    """The working directory as an absolute path; what a file says is relative to the file."""
    path = Path.cwd()
    if given is not None:
        path = path / given
    elif written is not None:
        beside = file.parent if file is not None and str(file) != "-" else Path()
        path = path / beside / str(written)
    path = Path(os.path.normpath(path.expanduser()))
    # An agent on another host has directories of its own.
    if call.settings.runtime_host == socket.gethostname():
        require_directory(path)
    return str(path)


def require_directory(path: Path) -> None:
    """Return if an agent can work in `path`.

    Raises:
        WorkingDirectoryUnusable: It is missing, no directory, or not accessible.
    """
    reason = None
    try:
        if not path.exists():
            reason = "doesn't exist"
        elif not path.is_dir():
            reason = "isn't a directory"
        elif not os.access(path, os.R_OK | os.W_OK | os.X_OK):
            reason = "isn't readable and writable for you"
    except (OSError, ValueError) as error:
        reason = f"can't be looked at ({error})"
    if reason:
        raise WorkingDirectoryUnusable(
            f"the working directory {path} {reason}; create it or choose another with --cwd",
            cwd=str(path),
        )
