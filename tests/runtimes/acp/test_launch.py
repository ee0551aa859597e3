"""One launch for each remote creation key, whoever dies in between."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

import pytest

from muster.domain.errors import (
    IdempotencyConflict,
    InvalidInput,
    RuntimeGone,
    RuntimeUnavailable,
    WorkingDirectoryUnusable,
)
from muster.domain.runtime import Launched, LaunchRequest, LaunchState
from muster.runtimes.acp import layout
from muster.runtimes.acp.adapter import AcpRuntime
from tests.runtimes.acp.support import Home, Session, add_key, lives

_ROOT = Path(__file__).resolve().parents[3]


async def _start_launcher(
    home: Home, request: LaunchRequest, faults: str = ""
) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        sys.executable,
        str(Path(__file__).with_name("launcher.py")),
        str(home.root),
        request.model_dump_json(),
        env={**os.environ, "PYTHONPATH": str(_ROOT), "MUSTER_FAULTS": faults},
        stdout=asyncio.subprocess.PIPE,
    )


async def test_a_key_that_was_never_used_is_absent(home: Home) -> None:
    found = await AcpRuntime(home.root).find_launch(home.request())

    assert found.state is LaunchState.ABSENT


async def test_a_launch_is_found_again_and_adopted(home: Home) -> None:
    first = await home.launch()

    found = await AcpRuntime(home.root).find_launch(home.request())
    again = await home.launch()

    assert found.state is LaunchState.RUNNING
    assert found.launched is not None
    assert found.launched.endpoint == first.endpoint
    assert again.launched == first.launched.model_copy(update={"adopted": True})
    assert first.launched.used_key_id == home.verifier.key_id


async def test_launches_at_once_under_one_key_make_one_sidecar(home: Home) -> None:
    sessions = await asyncio.gather(*(home.launch() for _ in range(4)))

    assert len({session.endpoint.incarnation for session in sessions}) == 1
    assert len({session.launched.process_id for session in sessions}) == 1
    assert [session.launched.adopted for session in sessions].count(False) == 1


async def test_an_agent_outlives_the_killed_process_that_launched_it(home: Home) -> None:
    launcher = await _start_launcher(home, home.request())
    assert launcher.stdout is not None
    launched = Launched.model_validate_json(await launcher.stdout.readline())
    os.kill(launcher.pid, signal.SIGKILL)
    await launcher.wait()

    found = await AcpRuntime(home.root).find_launch(home.request())

    assert found.launched is not None
    assert found.launched.endpoint == launched.endpoint
    session = Session(AcpRuntime(home.root), home.root, home.cwd, found.launched)
    assert (await session.run("echo alive")).response.text == "alive\n"


async def test_a_launcher_killed_before_it_spawned_leaves_the_key_absent(home: Home) -> None:
    launcher = await _start_launcher(home, home.request(), "launch.before_spawn=kill")
    assert await launcher.wait() == -signal.SIGKILL

    found = await AcpRuntime(home.root).find_launch(home.request())

    assert found.state is LaunchState.ABSENT
    assert (await home.launch()).launched.adopted is False


async def test_a_launcher_killed_after_it_spawned_leaves_a_launch_to_adopt(home: Home) -> None:
    launcher = await _start_launcher(home, home.request(), "launch.spawned=kill")
    assert await launcher.wait() == -signal.SIGKILL

    session = await home.launch()

    assert session.launched.adopted is True
    assert (await session.run("echo once")).response.text == "once\n"


async def test_a_held_lock_without_an_answer_is_unknown(home: Home) -> None:
    folder = layout.make_private_folder(
        home.root, layout.launch_folder("tests", "s-1", "remote_s-1")
    )
    lock = layout.try_lock(folder)
    assert lock is not None

    try:
        found = await AcpRuntime(home.root, find_seconds=0.1).find_launch(home.request())
    finally:
        os.close(lock)

    assert found.state is LaunchState.UNKNOWN
    assert str(folder) in found.evidence


async def test_another_request_under_the_same_key_is_a_conflict(home: Home, tmp_path: Path) -> None:
    await home.launch()

    with pytest.raises(IdempotencyConflict, match="cwd"):
        await home.launch(home.request(cwd=str(tmp_path)))


async def test_an_adopted_launch_states_and_proves_the_key_it_really_uses(home: Home) -> None:
    await home.launch()
    other = add_key(home.root)

    session = await home.launch(home.request(verifier=other))

    assert session.launched.used_key_id == home.verifier.key_id
    assert session.endpoint.verifier == home.verifier
    assert (await session.run("echo verified")).response.text == "verified\n"


async def test_an_ended_launch_never_begins_again(home: Home) -> None:
    session = await home.launch()
    await session.close()

    found = await session.runtime.find_launch(home.request())

    assert found.state is LaunchState.ENDED
    with pytest.raises(RuntimeGone, match=session.endpoint.incarnation):
        await home.launch()


async def test_a_state_root_with_a_very_long_path_works(tmp_path: Path) -> None:
    home = Home.make(tmp_path / ("long-" * 30) / ("path-" * 30))
    try:
        session = await home.launch()

        assert (await session.run("echo far")).response.text == "far\n"
    finally:
        home.end_everything()


async def test_an_unusable_working_directory_is_refused_before_anything_begins(home: Home) -> None:
    for cwd in ("relative", str(home.cwd / "missing"), __file__):
        with pytest.raises(WorkingDirectoryUnusable, match="directory"):
            await home.launch(home.request(cwd=cwd))

    assert not (home.root / "v2" / "tests" / "sessions").exists()


async def test_a_launch_without_its_private_key_is_refused_and_may_be_tried_again(
    home: Home,
) -> None:
    key = next((home.root / "v2" / "tests" / "keys").iterdir())
    content = key.read_bytes()
    key.unlink()

    with pytest.raises(RuntimeUnavailable, match="private key"):
        await home.launch()
    key.write_bytes(content)

    assert (await home.launch()).launched.adopted is False


async def test_a_key_file_that_is_no_key_ends_the_launch_with_its_reason(home: Home) -> None:
    key = next((home.root / "v2" / "tests" / "keys").iterdir())
    key.write_bytes(b"not a key")

    with pytest.raises((RuntimeGone, RuntimeUnavailable), match="key"):
        await home.launch()


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        (("/no/such/agent",), "can't be started"),
        (("sh", "-c", "echo sorry >&2; exit 4"), "exit code 4.*sorry"),
        (("sh", "-c", "exec cat"), "refused to start"),
    ],
)
async def test_an_agent_that_does_not_start_ends_its_launch_with_the_reason(
    home: Home, command: tuple[str, ...], reason: str
) -> None:
    with pytest.raises(RuntimeGone, match=f"(?s){reason}"):
        await home.launch(home.request(command=command))

    assert (await AcpRuntime(home.root).find_launch(home.request())).state is LaunchState.ENDED


async def test_an_agent_gets_what_its_request_names_and_nothing_of_the_worker(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MUSTER_MONGO_URI", "mongodb://secret")
    monkeypatch.setenv("TEMPORAL_API_KEY", "secret")
    monkeypatch.setenv("SOMETHING_ELSE", "secret")

    session = await home.launch(home.request(environment={"WANTED": "yes"}))
    ended = await session.run("env")

    variables = dict(line.split("=", 1) for line in ended.response.text.splitlines())
    assert variables["WANTED"] == "yes"
    assert "PATH" in variables
    assert not [name for name in variables if name.startswith(("MUSTER_", "TEMPORAL_", "PYTHON"))]
    assert "secret" not in ended.response.text


async def test_what_an_agent_makes_is_not_as_private_as_its_sidecar(home: Home) -> None:
    umask = os.umask(0o022)
    try:
        session = await home.launch()
    finally:
        os.umask(umask)

    await session.run("touch made")

    assert (home.cwd / "made").stat().st_mode & 0o777 == 0o644


async def test_a_request_that_hands_out_temporal_settings_is_refused(home: Home) -> None:
    with pytest.raises(InvalidInput, match="TEMPORAL_API_KEY"):
        await home.launch(home.request(environment={"TEMPORAL_API_KEY": "x"}))


async def test_a_working_directory_can_not_replace_a_module_of_the_agent(home: Home) -> None:
    for name in ("acp.py", "asyncio.py", "muster.py"):
        (home.cwd / name).write_text("raise SystemExit(9)\n")

    session = await home.launch()

    assert (await session.run("echo safe")).response.text == "safe\n"
    assert lives(session.record()["agent_pid"])


async def test_an_agent_can_not_command_its_own_sidecar(home: Home) -> None:
    session = await home.launch()
    program = home.cwd / "cheat.py"
    program.write_text(
        "import os, socket, sys\n"
        "folder = os.open(sys.argv[1], os.O_PATH)\n"
        "end = socket.socket(socket.AF_UNIX)\n"
        "end.connect(f'/proc/self/fd/{folder}/sidecar.sock')\n"
        'end.sendall(b\'{"verb": "close", "key": "cheat"}\\n\')\n'
        "print(end.makefile().readline())\n"
    )

    ended = await session.run(f"setsid {sys.executable} cheat.py '{session.folder}'")

    assert "ownership_conflict" in ended.response.text
    assert (await session.run("echo on")).stop_reason == "end_turn"
