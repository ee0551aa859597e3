"""The operations on private files that every fault layer runs, each with what must hold after.

The error matrix, the crash states and the power cuts differ in how they interrupt; what is
prepared, done and demanded is the same and stands here once.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from muster.domain.errors import ResourceGone
from muster.stores.files import calls
from muster.stores.files.beneath import TEMPORARY_PREFIX
from muster.stores.files.private import PrivateTree

LIMIT = 64 * 1024
OLD = b"O" * 6_000
NEW = b"N" * 9_000
KEPT = b"not to be touched"
ASIDE = b"an earlier one"

Problems = Iterator[str]


@dataclass(frozen=True)
class Operation:
    """One operation with its preparation and its oracle."""

    name: str
    act: Callable[[PrivateTree], object]
    """Returns when the operation is acknowledged; repeating it after a fault completes it."""
    problems: Callable[[PrivateTree, bool], Problems]
    """What is wrong in the tree, given whether the operation was acknowledged."""
    prepare: Callable[[PrivateTree], object] = lambda tree: None
    after_a_death: bool = False
    """The operation begins with what a dying writer does, so its litter needs a sweep."""


def prepare(operation: Operation, root: Path) -> PrivateTree:
    """A tree as it stands before the operation, all of it on the disk."""
    tree = PrivateTree(root)
    tree.replace("d/kept", KEPT, limit=LIMIT)
    operation.prepare(tree)
    return tree


def recover(root: Path) -> PrivateTree:
    """What the next process does first: open the tree and sweep each folder."""
    tree = PrivateTree(root)
    for folder, _, _ in os.walk(root):
        tree.sweep_temporary(_relative(root, folder))
    return tree


def violations(operation: Operation, tree: PrivateTree, acknowledged: bool) -> list[str]:
    """Everything wrong with a tree in which no writer is at work; empty when all is well."""
    return [
        *operation.problems(tree, acknowledged),
        *_content(tree, "d/kept", KEPT),
        *_litter(tree.root),
    ]


def _litter(root: Path) -> Problems:
    for folder, folders, files in os.walk(root):
        for name in [*folders, *files]:
            path = Path(folder, name)
            mode = stat.S_IMODE(path.lstat().st_mode)
            if name.startswith(TEMPORARY_PREFIX):
                yield f"temporary file left: {path}"
            elif not path.is_symlink() and mode != (0o700 if path.is_dir() else 0o600):
                yield f"mode {mode:o} of {path}"


def _content(tree: PrivateTree, path: str, *allowed: bytes | None) -> Problems:
    found = tree.read(path, limit=LIMIT)
    if found not in allowed:
        yield f"{path} holds {_brief(found)}, allowed {[_brief(each) for each in allowed]}"


def _brief(data: bytes | None) -> str:
    return "nothing" if data is None else f"{len(data)} bytes {data[:1]!r}..{data[-1:]!r}"


def _relative(root: Path, folder: str) -> str:
    relative = os.path.relpath(folder, root)
    return "" if relative == "." else relative


def _becomes(path: str, before: bytes | None, after: bytes | None) -> Callable[..., Problems]:
    """The oracle of a single file: old or new, whole, and new once acknowledged."""

    def problems(tree: PrivateTree, acknowledged: bool) -> Problems:
        return _content(tree, path, *((after,) if acknowledged else (before, after)))

    return problems


# What a writer that dies half-way leaves: changes no sync has covered.


def _die_after_mkdir(root: Path, name: str) -> None:
    folder = os.open(root, os.O_RDONLY | os.O_DIRECTORY)
    try:
        if not (root / name).exists():
            calls.current().mkdir(folder, name)
    finally:
        os.close(folder)


def _die_after_rename(root: Path, folder_name: str, name: str, data: bytes) -> None:
    folder = os.open(root / folder_name, os.O_RDONLY | os.O_DIRECTORY)
    temporary = f"{TEMPORARY_PREFIX}dead"
    try:
        if (root / folder_name / name).exists():
            return
        file = calls.current().create(folder, temporary)
        try:
            calls.current().write(file, data)
            calls.current().fsync(file)
        finally:
            os.close(file)
        calls.current().rename(folder, temporary, name)
    finally:
        os.close(folder)


def _die_after_unlink(root: Path, folder_name: str, name: str) -> None:
    folder = os.open(root / folder_name, os.O_RDONLY | os.O_DIRECTORY)
    try:
        if (root / folder_name / name).exists():
            calls.current().unlink(folder, name)
    finally:
        os.close(folder)


def _replace_in_a_dead_writers_folder(tree: PrivateTree) -> None:
    _die_after_mkdir(tree.root, "n")
    PrivateTree(tree.root).replace("n/x", NEW, limit=LIMIT)


def _create_after_a_dead_writer(tree: PrivateTree) -> None:
    _die_after_rename(tree.root, "d", "x", NEW)
    PrivateTree(tree.root).create("d/x", OLD, limit=LIMIT)


def _settle_after_a_dead_writer(tree: PrivateTree) -> None:
    _die_after_rename(tree.root, "d", "x", NEW)
    PrivateTree(tree.root).settle("d/x")


def _remove_after_a_dead_remover(tree: PrivateTree) -> None:
    _die_after_unlink(tree.root, "d", "x")
    PrivateTree(tree.root).remove("d/x")


# Operations on more than one name


def _grow_tree(tree: PrivateTree) -> None:
    tree.replace("t/x", OLD, limit=LIMIT)
    tree.replace("t/inner/y", OLD, limit=LIMIT)
    (tree.root / "t" / "link").symlink_to(tree.root / "d")
    tree.settle("t/x")


def _tree_problems(tree: PrivateTree, acknowledged: bool) -> Problems:
    if acknowledged and tree.exists("t"):
        yield "t is still there"
    yield from _content(tree, "t/x", OLD, None)
    yield from _content(tree, "t/inner/y", OLD, None)


def _remove_and_make_anew(tree: PrivateTree) -> None:
    tree.remove_tree("t")
    tree.replace("t/x", NEW, limit=LIMIT)


def _anew_problems(tree: PrivateTree, acknowledged: bool) -> Problems:
    yield from _content(tree, "t/x", *((NEW,) if acknowledged else (OLD, NEW, None)))
    if acknowledged:
        yield from _content(tree, "t/inner/y", None)


def _set_aside(path: str) -> Callable[[PrivateTree], object]:
    def act(tree: PrivateTree) -> None:
        try:
            tree.set_aside(path, "broken")
        except ResourceGone:
            return  # an interrupted attempt had done it

    return act


def _aside_problems(path: str, file: str, number: int) -> Callable[..., Problems]:
    """The content is under exactly one of both names, and with its reason under the new one."""

    def problems(tree: PrivateTree, acknowledged: bool) -> Problems:
        asides = [f"{path}.aside-{each}" for each in range(number, number + 3)]
        moved = [each for each in asides if tree.exists(each)]
        here = [path, *asides]
        holders = [each for each in here if tree.read(f"{each}{file}", limit=LIMIT) == OLD]
        if len(holders) != 1:
            yield f"the content of {path} is under {holders}"
        if acknowledged and tree.exists(path):
            yield f"{path} is still there"
        for each in moved:
            if b"broken" not in (tree.read(f"{each}.reason", limit=LIMIT) or b""):
                yield f"{each} has no reason"
        if number > 1:
            yield from _content(tree, f"{path}.aside-1", ASIDE)

    return problems


def _with_an_earlier_aside(tree: PrivateTree) -> None:
    tree.replace("d/x", ASIDE, limit=LIMIT)
    tree.set_aside("d/x", "earlier")
    tree.replace("d/x", OLD, limit=LIMIT)


def _folder_problems(tree: PrivateTree, acknowledged: bool) -> Problems:
    if acknowledged and not tree.exists("n/m"):
        yield "n/m isn't there"


def _old(path: str) -> Callable[[PrivateTree], object]:
    return lambda tree: tree.replace(path, OLD, limit=LIMIT)


OPERATIONS: tuple[Operation, ...] = (
    Operation(
        "replace",
        lambda tree: tree.replace("d/x", NEW, limit=LIMIT),
        _becomes("d/x", OLD, NEW),
        _old("d/x"),
    ),
    Operation(
        "replace_in_new_folders",
        lambda tree: tree.replace("n/m/x", NEW, limit=LIMIT),
        _becomes("n/m/x", None, NEW),
    ),
    Operation(
        "replace_in_a_dead_writers_folder",
        _replace_in_a_dead_writers_folder,
        _becomes("n/x", None, NEW),
        after_a_death=True,
    ),
    Operation(
        "create",
        lambda tree: tree.create("d/x", NEW, limit=LIMIT),
        _becomes("d/x", None, NEW),
    ),
    Operation(
        "create_over_existing",
        lambda tree: tree.create("d/x", NEW, limit=LIMIT),
        _becomes("d/x", OLD, OLD),
        _old("d/x"),
    ),
    Operation(
        "create_after_a_dead_writer",
        _create_after_a_dead_writer,
        # Whoever is acknowledged may be either: the dead writer's file can have been lost before.
        lambda tree, acknowledged: _content(
            tree, "d/x", *((NEW, OLD) if acknowledged else (NEW, OLD, None))
        ),
        after_a_death=True,
    ),
    Operation(
        "settle_after_a_dead_writer",
        _settle_after_a_dead_writer,
        _becomes("d/x", None, NEW),
        after_a_death=True,
    ),
    Operation(
        "remove",
        lambda tree: tree.remove("d/x"),
        _becomes("d/x", OLD, None),
        _old("d/x"),
    ),
    Operation(
        "remove_after_a_dead_remover",
        _remove_after_a_dead_remover,
        _becomes("d/x", OLD, None),
        _old("d/x"),
        after_a_death=True,
    ),
    Operation("remove_tree", lambda tree: tree.remove_tree("t"), _tree_problems, _grow_tree),
    Operation("remove_and_make_anew", _remove_and_make_anew, _anew_problems, _grow_tree),
    Operation("set_aside", _set_aside("d/x"), _aside_problems("d/x", "", 1), _old("d/x")),
    Operation(
        "set_aside_again",
        _set_aside("d/x"),
        _aside_problems("d/x", "", 2),
        _with_an_earlier_aside,
    ),
    Operation("set_aside_folder", _set_aside("t"), _aside_problems("t", "/x", 1), _grow_tree),
    Operation("make_directory", lambda tree: tree.make_directory("n/m"), _folder_problems),
)
