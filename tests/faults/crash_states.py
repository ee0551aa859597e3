"""Every state that a power cut may leave, worked out from a recording of file calls.

The model is what POSIX promises and no more: an fsync of a file keeps its bytes, an fsync of a
folder keeps its names, and what no later fsync covers may be lost in any combination. Real
filesystems keep more, so a program can be wrong here and look right on each of them.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path
from typing import TypeVar, cast

from muster.stores.files.calls import Call
from muster.stores.files.removal import entry_status
from tests.faults.file_shim import CountingCalls

T = TypeVar("T")

Inode = int
"""Of the model: numbered as met, since a filesystem gives a freed number to the next file."""


@dataclass(frozen=True)
class Step:
    """One recorded call on the inodes of the model."""

    name: str
    inode: Inode
    """The folder whose names change, or the file whose bytes do, or what is synced."""
    entry: str = ""
    """The name that goes, for rename, unlink and rmdir."""
    target: str = ""
    """The name that comes, for create, append_to, mkdir, rename and link."""
    named: Inode = 0
    """The inode that gets the name."""
    data: bytes = field(default=b"", repr=False)
    offset: int = 0
    """Where a write begins; the new length for truncate."""


@dataclass
class Node:
    """A file's bytes, a folder's names or a symbolic link's target."""

    mode: int
    data: bytes = b""
    names: dict[str, Inode] = field(default_factory=dict)
    link: str = ""


@dataclass
class Recording:
    """The tree as it stood, all durable, and the calls made on it since."""

    nodes: dict[Inode, Node] = field(default_factory=dict)
    steps: list[Step] = field(default_factory=list)


class RecordingCalls(CountingCalls):
    """Makes the calls and records them; holds each inode open so that no number comes twice."""

    def __init__(self, root: Path) -> None:
        super().__init__()
        self.recording = Recording()
        self._inodes: dict[tuple[int, int], Inode] = {}
        self._held: list[int] = []
        self._snapshot(root)

    def close(self) -> None:
        """Let go of the inodes."""
        for descriptor in self._held:
            os.close(descriptor)

    def reach(self, number: int, call: Call, action: Callable[[], T]) -> T:
        inode = self._known(os.fstat(call.descriptor))
        if inode is None:
            return super().reach(number, call, action)  # above the root: nothing of ours changes
        named = 0
        if call.name in ("rename", "link"):
            named = self._hold(call.entry, call.descriptor)
        opens_existing = call.name == "append_to" and _exists(call)
        result = super().reach(number, call, action)
        if not opens_existing:
            self.recording.steps.append(self._step(inode, call, named, result))
        return result

    def _step(self, inode: Inode, call: Call, named: Inode, result: object) -> Step:
        if call.name == "write":
            written = cast(int, result)
            # All that is written here goes to the end of its file.
            offset = os.fstat(call.descriptor).st_size - written
            return Step("write", inode, data=bytes(call.data[:written]), offset=offset)
        if call.name == "truncate":
            return Step("truncate", inode, offset=call.length)
        if call.name in ("create", "append_to", "mkdir"):
            new = self._hold(call.entry, call.descriptor)
            status = os.stat(call.entry, dir_fd=call.descriptor, follow_symlinks=False)
            self.recording.nodes[new] = Node(status.st_mode)
            return Step(call.name, inode, target=call.entry, named=new)
        gone = "" if call.name == "link" else call.entry
        return Step(call.name, inode, gone, call.target, named)

    def _known(self, status: os.stat_result) -> Inode | None:
        return self._inodes.get((status.st_dev, status.st_ino))

    def _hold(self, name: str, folder: int | None = None) -> Inode:
        held = os.open(name, os.O_PATH | os.O_NOFOLLOW, dir_fd=folder)
        self._held.append(held)
        status = os.fstat(held)
        return self._inodes.setdefault((status.st_dev, status.st_ino), len(self._inodes))

    def _snapshot(self, path: Path) -> Inode:
        inode = self._hold(str(path))
        status = path.lstat()
        node = self.recording.nodes[inode] = Node(status.st_mode)
        if stat.S_ISDIR(status.st_mode):
            node.names = {each.name: self._snapshot(each) for each in path.iterdir()}
        elif stat.S_ISLNK(status.st_mode):
            node.link = str(path.readlink())
        else:
            node.data = path.read_bytes()
        return inode


def _exists(call: Call) -> bool:
    return entry_status(call.descriptor, call.entry) is not None


@dataclass(frozen=True)
class CrashState:
    """What may be on the disk after `made` calls when `lost` of them didn't reach it."""

    made: int
    lost: tuple[Step, ...]
    nodes: dict[Inode, Node]
    """The tree; its root is inode 0."""


def crash_states(recording: Recording) -> Iterator[CrashState]:
    """Each distinct state after each number of calls; equal trees after as many come once."""
    for made in range(len(recording.steps) + 1):
        steps = recording.steps[:made]
        at_risk = [k for k in range(made) if not _covered(steps, k)]
        seen: set[object] = set()
        for count in range(len(at_risk) + 1):
            for lost in combinations(at_risk, count):
                kept = [step for k, step in enumerate(steps) if k not in lost]
                nodes = _applied(recording, kept)
                shape = _shape(nodes, 0)
                if shape not in seen:
                    seen.add(shape)
                    yield CrashState(made, tuple(steps[k] for k in lost), nodes)


def _covered(steps: list[Step], k: int) -> bool:
    """Whether a later fsync of the same inode keeps the step; a sync itself can't be lost."""
    step = steps[k]
    return step.name == "fsync" or any(
        later.name == "fsync" and later.inode == step.inode for later in steps[k + 1 :]
    )


def _applied(recording: Recording, steps: list[Step]) -> dict[Inode, Node]:
    nodes = {
        inode: Node(node.mode, node.data, dict(node.names), node.link)
        for inode, node in recording.nodes.items()
    }
    for step in steps:
        node = nodes[step.inode]
        if step.name == "write":
            end = step.offset + len(step.data)
            node.data = (
                node.data[: step.offset].ljust(step.offset, b"\0") + step.data + node.data[end:]
            )
        if step.name == "truncate":
            node.data = node.data[: step.offset]
        if step.target:
            node.names[step.target] = step.named
        if step.entry:
            node.names.pop(step.entry, None)
    return nodes


def _shape(nodes: dict[Inode, Node], inode: Inode) -> object:
    """The tree as a value that can be compared."""
    node = nodes[inode]
    names = tuple((name, _shape(nodes, each)) for name, each in sorted(node.names.items()))
    return node.data, node.link, names


def materialise(nodes: dict[Inode, Node], root: Path, inode: Inode = 0) -> None:
    """Write the tree of a crash state to `root`, which must not exist."""
    node = nodes[inode]
    if stat.S_ISDIR(node.mode):
        root.mkdir(mode=0o700)
        for name, inner in node.names.items():
            materialise(nodes, root / name, inner)
    elif stat.S_ISLNK(node.mode):
        root.symlink_to(node.link)
    else:
        root.touch(mode=0o600)
        root.write_bytes(node.data)
