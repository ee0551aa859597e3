"""Receipts and first documents: one claim for a key, and a session that never seems to be gone."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from muster.domain.creation import CreateCommand, CreateSpec, CreationReceipt, first_document
from muster.domain.errors import EndpointStale, StateCorrupt
from muster.stores.files import paths
from muster.stores.files.private import PrivateTree
from muster.stores.files.receipts import ReceiptStore
from tests.domain import builders as b
from tests.stores.files.sessions_on_disk import DOCUMENT, Disk

KEY = b.key("create")
PATH = paths.creation_receipt(b.NAMESPACE, KEY)


def claim(title: str | None = None) -> CreationReceipt:
    """A claim under the key."""
    command = CreateCommand(
        namespace_id=b.NAMESPACE,
        key_digest=KEY,
        spec=CreateSpec(cwd="/home/dev", session_id=b.SESSION, title=title),
    )
    return CreationReceipt(
        namespace_id=b.NAMESPACE,
        key_digest=KEY,
        request_digest=command.request_digest,
        tool="start",
        request=command.spec,
        remote_create_key=command.remote_create_key,
        session_id=b.SESSION,
        sidecar_verifier=b.VERIFIER,
        created_at=b.moment(),
    )


@pytest.fixture
def receipts(tmp_path: Path) -> ReceiptStore:
    """A state root without a receipt."""
    return ReceiptStore(PrivateTree(tmp_path / "state"))


def test_twenty_claims_at_once_hear_of_the_one_that_was_filed(receipts: ReceiptStore) -> None:
    heard: list[CreationReceipt] = []
    together = threading.Barrier(20)

    def ask(number: int) -> None:
        together.wait()
        heard.append(receipts.claim_creation(claim(f"title {number}")))

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(20)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert len(heard) == 20
    assert len({each.request.title for each in heard}) == 1
    assert receipts.creation(b.NAMESPACE, KEY) == heard[0]


def test_what_was_set_aside_is_not_taken_for_what_never_was(
    receipts: ReceiptStore, tmp_path: Path
) -> None:
    receipts.claim_creation(claim())
    path = tmp_path / "state" / PATH
    good = path.read_bytes()
    path.write_bytes(b"{}")
    for _ in range(2):
        with pytest.raises(StateCorrupt, match=f"{KEY}.json.aside-1"):
            receipts.creation(b.NAMESPACE, KEY)
    path.write_bytes(good)
    assert receipts.creation(b.NAMESPACE, KEY) == claim()


def test_a_document_is_replaced_without_a_moment_in_which_the_session_seems_not_to_exist(
    tmp_path: Path,
) -> None:
    disk = Disk.at(tmp_path / "state")
    disk.sessions.create(b.idle())
    command = CreateCommand(namespace_id=b.NAMESPACE, key_digest=KEY, spec=claim().request)
    broker = b.idle().canonical.session.broker
    done, seen = threading.Event(), [b.INCARNATION]

    def read() -> None:
        own = Disk.at(tmp_path / "state")
        while not done.is_set():
            found = own.sessions.read(b.NAMESPACE, b.SESSION)
            seen.append(found.canonical.session.broker.endpoint_incarnation if found else "gone")

    reader = threading.Thread(target=read)
    reader.start()
    living = b.INCARNATION
    for number in range(100):
        following = f"inc-{number}"
        placed = broker.model_copy(update={"endpoint_incarnation": following})
        disk.sessions.create(first_document(command, placed, b.moment()), living.__eq__)
        living = following
    done.set()
    reader.join()
    assert "gone" not in seen
    assert len(set(seen)) > 1, "the reader saw no change"


def test_a_document_of_another_incarnation_stays_unless_its_deletion_is_complete(
    tmp_path: Path,
) -> None:
    disk = Disk.at(tmp_path / "state")
    disk.sessions.create(b.idle())
    before = disk.file(DOCUMENT).read_bytes()
    command = CreateCommand(namespace_id=b.NAMESPACE, key_digest=KEY, spec=claim().request)
    placed = b.idle().canonical.session.broker.model_copy(
        update={"endpoint_incarnation": "inc-later"}
    )
    for deleted in ("", "inc-unknown"):
        with pytest.raises(EndpointStale):
            disk.sessions.create(first_document(command, placed, b.moment()), deleted.__eq__)
    assert disk.file(DOCUMENT).read_bytes() == before
