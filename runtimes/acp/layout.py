"""What lies in a launch folder, and who may say what it proves.

A launch folder belongs to one remote creation key. Its lock file is the proof of life: the
launching worker takes the lock and hands the open descriptor down to the sidecar, so that
between the decision to launch and the sidecar's end the lock is never free, and the kernel frees
it when the last holder dies. `launch.json` is written before the agent is started. Hence: lock
free and no `launch.json` means never begun; lock free and a `launch.json` means ended.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import tempfile
from pathlib import Path, PurePosixPath
from typing import Any

from muster.domain.canonical import sha256_hex

REQUEST = "request.json"
LOCK = "launch.lock"
LAUNCH = "launch.json"
EVENTS = "events.jsonl"
COMMANDS = "commands.jsonl"
SOCKET = "sidecar.sock"
LOG = "agent.log"
RESPONSES = "responses"

_FOLDER_PATTERN = re.compile(
    r"v2/[a-z0-9][a-z0-9_-]{0,62}/sessions/[A-Za-z0-9][A-Za-z0-9._-]{0,127}/runtime/[a-f0-9]{24}"
)


def launch_folder(namespace_id: str, session_id: str, remote_create_key: str) -> PurePosixPath:
    """The folder of a remote creation key, relative to the state root."""
    name = sha256_hex(remote_create_key)[:24]
    return PurePosixPath("v2", namespace_id, "sessions", session_id, "runtime", name)


def is_launch_folder(relative: str) -> bool:
    """Whether `relative` has the form that `launch_folder` gives."""
    return _FOLDER_PATTERN.fullmatch(relative) is not None


def make_private_folder(root: Path, relative: PurePosixPath) -> Path:
    """`root/relative` with every missing folder created 0700 and its entry made durable."""
    folder = root
    for part in relative.parts:
        parent, folder = folder, folder / part
        try:
            folder.mkdir(mode=0o700)
        except FileExistsError:
            continue
        sync_folder(parent)
    return folder


def write_private(path: Path, content: bytes) -> None:
    """Replace `path` in one step, 0600 and durable."""
    descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def read_json(path: Path) -> dict[str, Any] | None:
    """The JSON object in `path`, or None if there is no such file."""
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return None
    value: dict[str, Any] = json.loads(content)
    return value


def try_lock(folder: Path) -> int | None:
    """A descriptor that holds the folder's lock, or None while somebody else holds it.

    Closing the last copy of the descriptor frees the lock.
    """
    descriptor = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def is_alive(folder: Path) -> bool:
    """Whether a launcher or sidecar holds the folder's lock."""
    try:
        descriptor = os.open(folder / LOCK, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def sync_folder(folder: Path) -> None:
    """Make the entries of `folder` durable."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
