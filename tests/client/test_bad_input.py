"""What is wrong is said in one line with a code, by the exit status, and without a traceback."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from muster.client import MusterClient
from muster.client.local_stack import StackInfo
from muster.devstack import Stack, StackOptions
from muster.domain.errors import ResourceGone
from tests.client.conftest import Command, Said
from tests.stores.documents.servers import database_server

NOBODY = "127.0.0.1:1"


def _one_line(said: Said, status: int, code: str) -> None:
    assert said.status == status, said
    assert said.out == ""
    assert said.err.startswith(f"error[{code}]: ")
    assert said.err.count("\n") == 1
    assert "Traceback" not in said.err


@pytest.mark.parametrize(
    ("arguments", "status", "code"),
    [
        (["sesion"], 2, "invalid_input"),
        (["session", "shw"], 2, "invalid_input"),
        (["session", "show"], 2, "invalid_input"),
        (["session", "ls", "--sttaus", "waiting"], 2, "invalid_input"),
        (["session", "ls", "--status", "bored"], 2, "invalid_input"),
        (["session", "ls", "--limit", "0"], 2, "invalid_input"),
        (["session", "ls", "--namespace", "No Such"], 2, "invalid_input"),
        (["session", "show", "../etc/passwd"], 2, "invalid_input"),
        (["session", "send", "s-1"], 2, "invalid_input"),
        (["session", "send", "s-1", "hi", "--follow-up", "--abort"], 2, "invalid_input"),
        (["session", "send", "s-1", "--file", "missing.txt"], 2, "invalid_input"),
        (["session", "send", "s-1", "hi", "--file", "x"], 2, "invalid_input"),
        (["session", "answer", "s-1", "q-1"], 2, "invalid_input"),
        (["session", "answer", "s-1", "q-1", "x", "--allow"], 2, "invalid_input"),
        (["session", "close", "s-1", "--if-idle-for", "soon"], 2, "invalid_input"),
        (["session", "create", "--cwd", "missing"], 2, "cwd_unusable"),
        (["session", "create", "--cwd", "file"], 2, "cwd_unusable"),
        (["session", "create", "--kind", "borrow"], 2, "invalid_input"),
        (["session", "create", "--kind", "delegate"], 2, "invalid_input"),
        (["session", "create", "--session-id", "a b"], 2, "invalid_input"),
        (["session", "create", "--title", "x" * 201], 2, "invalid_input"),
        (["session", "create", "--file", "broken.yaml"], 2, "invalid_input"),
        (["session", "create", "--file", "list.yaml"], 2, "invalid_input"),
        (["session", "create", "--file", "unknown.yaml"], 2, "invalid_input"),
        (["session", "create", "--agent", "unclosed 'quote"], 2, "invalid_input"),
        (["session", "create", "--prompt", " "], 2, "invalid_input"),
    ],
)
async def test_wrong_arguments_are_refused_before_any_server_is_asked(
    command: Command, tmp_path: Path, arguments: list[str], status: int, code: str
) -> None:
    (tmp_path / "file").write_text("not a directory")
    (tmp_path / "broken.yaml").write_text("title: [unclosed")
    (tmp_path / "list.yaml").write_text("- one\n- two\n")
    (tmp_path / "unknown.yaml").write_text("colour: green\n")
    _one_line(await command(*arguments), status, code)


async def test_no_mongodb_is_said_by_a_read(
    command: Command, no_settings: pytest.MonkeyPatch
) -> None:
    no_settings.setenv("MUSTER_MONGO_URI", f"mongodb://{NOBODY}/?timeoutMS=300")
    _one_line(await command("session", "ls"), 1, "mongo_unavailable")


async def test_wrong_credentials_for_mongodb_are_said_without_showing_them(
    command: Command, no_settings: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    async with database_server(tmp_path / "db", "--auth") as port:
        no_settings.setenv("MUSTER_MONGO_URI", f"mongodb://someone:s3cret@127.0.0.1:{port}/")
        said = await command("session", "ls")
    _one_line(said, 1, "mongo_unavailable")
    assert "password" in said.err
    assert "s3cret" not in said.err


async def test_a_mongodb_that_does_not_speak_tls_is_said(
    muster: Command, no_settings: pytest.MonkeyPatch, stack: StackInfo
) -> None:
    assert stack.mongo is not None
    uri = f"{stack.mongo.uri}&tls=true&timeoutMS=1000"
    no_settings.setenv("MUSTER_MONGO_URI", uri)
    _one_line(await muster("session", "ls"), 1, "mongo_unavailable")


async def test_an_unreadable_mongodb_uri_is_said_without_showing_it(
    command: Command, no_settings: pytest.MonkeyPatch
) -> None:
    no_settings.setenv("MUSTER_MONGO_URI", "mongo://someone:s3cret@host")
    said = await command("session", "ls")
    _one_line(said, 2, "invalid_input")
    assert "s3cret" not in said.err


async def test_a_stack_that_is_half_up_is_said_by_doctor(
    command: Command, tmp_path: Path, plain_environ: dict[str, str]
) -> None:
    options = StackOptions(
        data_dir=tmp_path / ".muster",
        with_temporal=False,
        worker=False,
        mongo_port=0,
        environ=plain_environ,
    )
    async with Stack(options):
        said = await command("doctor", "--json")
    wrong = {each["name"]: each["found"] for each in said.lines if each["ok"] is False}
    assert "without Temporal, worker" in wrong["stack"]
    assert "temporal" in wrong
    assert "mongo" not in wrong
    assert said.status == 1


async def test_no_temporal_is_said_by_a_command(
    command: Command, no_settings: pytest.MonkeyPatch, folder: Path
) -> None:
    no_settings.setenv("TEMPORAL_ADDRESS", NOBODY)
    said = await command("session", "create", "--cwd", str(folder))
    _one_line(said, 1, "temporal_unavailable")
    assert NOBODY in said.err
    assert "muster dev" in said.err


async def test_a_plain_server_asked_for_tls_is_said(
    command: Command, no_settings: pytest.MonkeyPatch, folder: Path, temporal_address: str
) -> None:
    no_settings.setenv("TEMPORAL_ADDRESS", temporal_address)
    no_settings.setenv("TEMPORAL_TLS", "true")
    said = await command("session", "create", "--cwd", str(folder))
    _one_line(said, 1, "temporal_unavailable")
    assert "TLS" in said.err


async def test_a_certificate_that_is_missing_is_said(
    command: Command, no_settings: pytest.MonkeyPatch, folder: Path, temporal_address: str
) -> None:
    no_settings.setenv("TEMPORAL_ADDRESS", temporal_address)
    no_settings.setenv("TEMPORAL_TLS_SERVER_CA_CERT_PATH", "missing.pem")
    said = await command("session", "create", "--cwd", str(folder))
    assert said.status in (1, 2)
    assert said.err.startswith(("error[temporal_unavailable]", "error[invalid_input]"))
    assert "Traceback" not in said.err


async def test_an_unknown_temporal_namespace_is_said(
    command: Command,
    no_settings: pytest.MonkeyPatch,
    folder: Path,
    temporal_address: str,
) -> None:
    no_settings.setenv("TEMPORAL_ADDRESS", temporal_address)
    no_settings.setenv("TEMPORAL_NAMESPACE", "nowhere")
    said = await command("session", "create", "--cwd", str(folder))
    _one_line(said, 1, "temporal_unavailable")
    assert "nowhere" in said.err


async def test_a_queue_that_nobody_polls_is_said(
    muster: Command, no_settings: pytest.MonkeyPatch, folder: Path
) -> None:
    no_settings.setenv("MUSTER_ROOT", "deserted")
    said = await muster("session", "create", "--cwd", str(folder), "--timeout", "1s")
    _one_line(said, 1, "worker_unavailable")
    assert "muster-deserted" in said.err


async def test_an_unknown_session_is_not_found(muster: Command) -> None:
    for verb in ("show", "stop", "close"):
        _one_line(await muster("session", verb, "nobody"), 4, "resource_gone")


async def test_the_client_says_that_a_session_is_unknown_without_asking_mongodb(
    client: MusterClient,
) -> None:
    with pytest.raises(ResourceGone, match="no session"):
        await client.send("nobody", "hi")


async def test_with_json_an_error_is_an_object(command: Command) -> None:
    said = await command("session", "show", "../x", "--json")
    assert said.status == 2
    assert said.json["error"]["code"] == "invalid_input"
    assert said.err == ""
    usage = await command("session", "show", "--json")
    assert usage.json["error"]["code"] == "invalid_input"


async def test_debug_shows_where_an_error_came_from(command: Command) -> None:
    said = await command("session", "show", "../x", "--debug")
    assert "Traceback" in said.err
    assert said.err.splitlines()[-1].startswith("error[invalid_input]")


def _muster(
    *arguments: str, cwd: Path, environ: dict[str, str]
) -> subprocess.CompletedProcess[str]:
    root = str(Path(__file__).parents[2])
    return subprocess.run(
        [sys.executable, "-m", "muster.client.main", *arguments],
        cwd=cwd,
        env={**environ, "PYTHONPATH": root},
        capture_output=True,
        text=True,
        timeout=60,
    )


def test_the_process_ends_with_the_status_and_finds_the_stack_of_its_folder(
    stack: StackInfo, plain_environ: dict[str, str]
) -> None:
    folder = Path(stack.data_dir).parent
    found = _muster("session", "ls", "--json", cwd=folder, environ=plain_environ)
    assert (found.returncode, found.stderr) == (0, "")
    assert all(json.loads(line) for line in found.stdout.splitlines())
    missing = _muster("session", "show", "nobody", cwd=folder, environ=plain_environ)
    assert missing.returncode == 4
    assert missing.stderr.startswith("error[resource_gone]: ")


def test_a_reader_that_has_gone_ends_the_command_quietly(
    stack: StackInfo, plain_environ: dict[str, str]
) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    try:
        done = subprocess.run(
            [sys.executable, "-m", "muster.client.main", "doctor", "--json"],
            cwd=Path(stack.data_dir).parent,
            env={**plain_environ, "PYTHONPATH": str(Path(__file__).parents[2])},
            stdout=writer,
            stderr=subprocess.PIPE,
            text=True,
            timeout=60,
        )
    finally:
        os.close(writer)
    assert "Traceback" not in done.stderr
    assert done.returncode == 141
