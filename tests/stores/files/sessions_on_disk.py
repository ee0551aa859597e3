"""A session's files beneath a state root, as processes open them that know nothing yet."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from muster.domain.changes import AcknowledgeEvents, Acknowledgement, Change, Outcome
from muster.domain.contracts import SessionRef
from muster.domain.history import PARTS, SessionHistory
from muster.domain.session_document import SessionDocument
from muster.stores.files import paths
from muster.stores.files.archive import ArchiveStore
from muster.stores.files.private import PrivateTree
from muster.stores.files.projections import ProjectionStore
from muster.stores.files.sessions import SessionStore
from tests.domain import builders as b

REF = SessionRef(namespace_id=b.NAMESPACE, session_id=b.SESSION, incarnation=b.INCARNATION)
DOCUMENT = paths.session_document(b.NAMESPACE, b.SESSION)
FOLDER = paths.session_folder(b.NAMESPACE, b.SESSION)
PROJECTION = paths.projection_folder(b.NAMESPACE, b.SESSION)
DAY = 24 * 60

OutcomeT = TypeVar("OutcomeT", bound=Outcome)


@dataclass(frozen=True)
class Disk:
    """The stores of one process."""

    tree: PrivateTree
    archive: ArchiveStore
    sessions: SessionStore
    projections: ProjectionStore

    @classmethod
    def at(cls, root: Path) -> Disk:
        """As a new process opens them."""
        tree = PrivateTree(root)
        archive = ArchiveStore(tree)
        return cls(tree, archive, SessionStore(tree, archive), ProjectionStore(tree))

    def file(self, path: str) -> Path:
        """Where a file stands."""
        return self.tree.root / path

    @property
    def document(self) -> SessionDocument:
        """The document of the session."""
        return self.sessions.require(REF)

    def commit(self, *changes: Change, minutes: float = 1) -> SessionDocument:
        """Commit changes one after the other."""
        for change in changes:
            revision = self.document.revision
            self.sessions.commit(REF, revision, change, b.moment(minutes))
        return self.document

    def answer(self, change: Change, expected: type[OutcomeT], minutes: float = 1) -> OutcomeT:
        """Commit one change and return its outcome, which is of the expected type."""
        revision = self.document.revision
        outcome = self.sessions.commit(REF, revision, change, b.moment(minutes)).outcome
        assert isinstance(outcome, expected)
        return outcome

    def publish(self, minutes: float = 1) -> SessionDocument:
        """Acknowledge all that is owed to the journal."""
        return self.commit(acknowledged(self.document), minutes=minutes)

    def run(self, name: str, said: str = "done", minutes: float = 1) -> SessionDocument:
        """One whole turn, published."""
        seq = self.document.recovery.runtime_cursor
        self.commit(
            b.follow_up(name),
            b.events(b.started(seq + 1, name)),
            b.events(b.ended(seq + 2, name, text=said)),
            minutes=minutes,
        )
        return self.publish(minutes)

    def archived(self) -> list[SessionHistory]:
        """Every record file, oldest first."""
        found = [self.archive.read(REF, name) for name in self.archive.segments(REF)]
        return [each for each in found if each is not None]

    def records(self) -> dict[str, set[str]]:
        """The keys of every record that the document or the archive holds, by part."""
        held = records_of(self.document)
        for each in self.archived():
            for part in PARTS:
                held[part] |= set(getattr(each, part))
        return held


def records_of(document: SessionDocument) -> dict[str, set[str]]:
    """The keys of a document's records, by part."""
    canonical, requests = document.canonical, document.requests
    return {
        "turns": set(canonical.turns),
        "questions": set(canonical.questions),
        "gate_authorities": set(canonical.gate_authorities),
        "reports": set(canonical.reports),
        "prompts": set(requests.prompts),
        "answers": set(requests.answers),
        "operations": set(requests.operations),
        "outbox": set(document.outbox),
    }


def acknowledged(document: SessionDocument) -> AcknowledgeEvents:
    """The journal has what the document owes it, under sequences that rise with the revision."""
    owed = [each for each in document.outbox.values() if each.public_delivery.journal_seq is None]
    return AcknowledgeEvents(
        acknowledgements=tuple(
            Acknowledgement(
                public_event_id=each.public_event_id, journal_seq=document.revision * 100 + number
            )
            for number, each in enumerate(owed)
        )
    )


def reason_of(disk: Disk, aside: str) -> str:
    """Why a file was set aside."""
    return str(json.loads(disk.file(f"{aside}.reason").read_text())["reason"])
