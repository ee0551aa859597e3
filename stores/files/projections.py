"""The readers' files beneath a session's folder, kept current with its document.

A file is written only where its content changes, so a publication costs what has changed and not
what there is. The session's own file comes last: what it names as its revision is all there.
Nothing is synced: a process compares every file with the document before it trusts its own memory
of them, so what a power cut takes is made again.
"""

from __future__ import annotations

import threading
from typing import TypeVar

from pydantic import ValidationError

from muster.domain.contract import Contract
from muster.domain.errors import LimitExceeded
from muster.domain.projection import (
    SessionProjection,
    TurnProjection,
    session_projection,
    turn_projections,
)
from muster.domain.session_document import Report, SessionDocument
from muster.stores.files import limits, paths
from muster.stores.files.private import PrivateTree

ModelT = TypeVar("ModelT", bound=Contract)

SESSION_FILE = "session.json"
ACTIVE_FILE = "active-turn.json"
TURNS = "turns"
REPORTS = "reports"

_REMEMBERED_SESSIONS = 1_024


class ProjectionStore:
    """The projections of all sessions beneath one state root; may be shared by threads.

    Args:
        tree: The state root.
    """

    def __init__(self, tree: PrivateTree) -> None:
        self._tree = tree
        self._last: dict[str, SessionDocument] = {}
        self._guard = threading.Lock()

    def project(self, document: SessionDocument) -> int:
        """Bring the files up to the document; returns how many were written or removed.

        What this process wrote before is trusted; `repair` looks at every file.
        """
        folder = self._folder(document)
        with self._guard:
            before = self._last.get(folder)
        if before is None:
            return self.repair(document)
        wanted = _changed_files(before, document)
        gone = _gone_files(before, document)
        changed = self._write(folder, wanted) + self._remove(folder, gone)
        self._remember(folder, document)
        return changed

    def repair(self, document: SessionDocument) -> int:
        """Compare every file with the document and mend what is missing, stale or not its own."""
        folder = self._folder(document)
        wanted = _all_files(document)
        present = [
            *(f"{TURNS}/{name}" for name in self._tree.list(f"{folder}/{TURNS}")),
            *(f"{REPORTS}/{name}" for name in self._tree.list(f"{folder}/{REPORTS}")),
        ]
        stray = [name for name in present if name not in wanted]
        stale = {
            name: data
            for name, data in wanted.items()
            if not self._is_current(f"{folder}/{name}", data)
        }
        changed = self._write(folder, stale) + self._remove(folder, stray)
        self._remember(folder, document)
        return changed

    def read_session(self, namespace: str, session_id: str) -> SessionProjection | None:
        """The session's own file, or None if it is missing or can't be read."""
        folder = paths.projection_folder(namespace, session_id)
        return self._read(f"{folder}/{SESSION_FILE}", SessionProjection)

    def read_turns(self, namespace: str, session_id: str) -> dict[str, TurnProjection]:
        """Every readable turn file by turn id."""
        return self._read_folder(namespace, session_id, TURNS, TurnProjection)

    def read_reports(self, namespace: str, session_id: str) -> dict[str, Report]:
        """Every readable report file by report id."""
        return self._read_folder(namespace, session_id, REPORTS, Report)

    def _folder(self, document: SessionDocument) -> str:
        return paths.projection_folder(document.namespace_id, document.session_id)

    def _write(self, folder: str, files: dict[str, bytes]) -> int:
        for name, data in files.items():
            path = f"{folder}/{name}"
            self._tree.replace(path, data, limit=limits.PROJECTION, durable=False)
        return len(files)

    def _remove(self, folder: str, names: list[str]) -> int:
        return sum(self._tree.remove(f"{folder}/{name}") for name in names)

    def _is_current(self, path: str, data: bytes) -> bool:
        try:
            return self._tree.read(path, limit=limits.PROJECTION) == data
        except LimitExceeded:
            return False

    def _remember(self, folder: str, document: SessionDocument) -> None:
        with self._guard:
            self._last.pop(folder, None)
            self._last[folder] = document
            while len(self._last) > _REMEMBERED_SESSIONS:
                self._last.pop(next(iter(self._last)))

    def _read(self, path: str, model: type[ModelT]) -> ModelT | None:
        data = self._tree.read(path, limit=limits.PROJECTION)
        if data is None:
            return None
        try:
            return model.model_validate_json(data)
        except ValidationError:
            self._tree.set_aside(path, f"it isn't a readable {model.__name__}")
            return None

    def _read_folder(
        self, namespace: str, session_id: str, kind: str, model: type[ModelT]
    ) -> dict[str, ModelT]:
        folder = f"{paths.projection_folder(namespace, session_id)}/{kind}"
        found = {}
        for name in self._tree.list(folder):
            if name.endswith(".json"):
                record = self._read(f"{folder}/{name}", model)
                if record is not None:
                    found[name.removesuffix(".json")] = record
        return found


def _encode(model: Contract) -> bytes:
    return model.model_dump_json().encode()


def _own_files(document: SessionDocument) -> dict[str, bytes]:
    """The active turn's file and, last, the session's own."""
    active = document.canonical.queue.active_turn_id
    turn = turn_projections(document, [active])[active] if active else None
    return {
        ACTIVE_FILE: _encode(turn) if turn else b"null",
        SESSION_FILE: _encode(session_projection(document)),
    }


def _all_files(document: SessionDocument) -> dict[str, bytes]:
    turns = turn_projections(document)
    return {
        **{f"{TURNS}/{key}.json": _encode(turn) for key, turn in turns.items()},
        **{f"{REPORTS}/{k}.json": _encode(v) for k, v in document.canonical.reports.items()},
        **_own_files(document),
    }


def _changed_files(before: SessionDocument, after: SessionDocument) -> dict[str, bytes]:
    """The files whose records differ."""
    if before is after:
        return {}
    old, new = before.canonical, after.canonical
    touched = {
        *_changed(old.turns, new.turns),
        *(each.turn_id for each in _changed(old.questions, new.questions).values()),
        *(
            each.coordinator_turn_id
            for each in _changed(before.requests.prompts, after.requests.prompts).values()
            if each.coordinator_turn_id
        ),
        *(
            each.turn_id
            for each in _changed(before.requests.answers, after.requests.answers).values()
        ),
    }
    turns = turn_projections(after, sorted(touched))
    return {
        **{f"{TURNS}/{key}.json": _encode(turn) for key, turn in turns.items()},
        **{
            f"{REPORTS}/{key}.json": _encode(report)
            for key, report in _changed(old.reports, new.reports).items()
        },
        **_own_files(after),
    }


def _changed(before: dict[str, ModelT], after: dict[str, ModelT]) -> dict[str, ModelT]:
    """Records that are new or another; the same object needs no comparison."""
    return {
        key: record
        for key, record in after.items()
        if (known := before.get(key)) is not record and known != record
    }


def _gone_files(before: SessionDocument, after: SessionDocument) -> list[str]:
    turns = before.canonical.turns.keys() - after.canonical.turns.keys()
    reports = before.canonical.reports.keys() - after.canonical.reports.keys()
    return [
        *(f"{TURNS}/{key}.json" for key in sorted(turns)),
        *(f"{REPORTS}/{key}.json" for key in sorted(reports)),
    ]
