"""Activities of a creation: claim, record, fail, complete. All write a few small files."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from datetime import UTC, datetime

from temporalio import activity

from muster.activities.errors import coded
from muster.activities.together import all_of
from muster.domain.closing import Tombstone
from muster.domain.contract import timestamp
from muster.domain.contracts import (
    Activities,
    ClaimedCreation,
    CompleteCreation,
    CreationRecorded,
    FailCreation,
    MarkUncertain,
    RecordCreation,
)
from muster.domain.control import MusterStatus
from muster.domain.creation import (
    CreateAnswer,
    CreateCommand,
    CreationReceipt,
    create_answer,
    first_document,
    launch_request,
    reconcile_verifier,
)
from muster.domain.errors import (
    EndpointStale,
    IdempotencyConflict,
    MusterError,
    ResourceGone,
    SessionClosing,
    StateCorrupt,
)
from muster.domain.faults import fault_point
from muster.domain.identifiers import deletion_id
from muster.domain.runtime import Launched, Verifier
from muster.domain.session_document import Broker, SessionDocument
from muster.domain.summaries import summary_of, summary_of_uncertain_creation
from muster.domain.view import view_of
from muster.runtimes.signing import generate_key
from muster.stores.documents.sessions import SessionSummaries
from muster.stores.files.receipts import ReceiptStore
from muster.stores.files.sessions import SessionStore


class CreationActivities:
    """What `CreateSession` does to the namespace's files and to the list of sessions.

    Args:
        receipts: Creation receipts and keys.
        sessions: Session documents.
        summaries: The list that readers see.
    """

    def __init__(
        self, receipts: ReceiptStore, sessions: SessionStore, summaries: SessionSummaries
    ) -> None:
        self._receipts = receipts
        self._sessions = sessions
        self._summaries = summaries

    @activity.defn(name=Activities.CLAIM_CREATION)
    @coded
    async def claim(self, command: CreateCommand) -> ClaimedCreation:
        """File the request under its key before anything remote happens.

        Repeatable: an existing claim is returned with what it has become, whatever it asks for;
        the rest is done for the claimed request. A session id that is taken is refused with
        nothing filed: the key stays usable.
        """
        return await asyncio.to_thread(self._claim, command)

    def _claim(self, command: CreateCommand) -> ClaimedCreation:
        receipt = self._receipts.creation(command.namespace_id, command.key_digest)
        if receipt is None:
            self._require_free(command)
            receipt = self._file_claim(command)
        else:
            self._receipts.settle_creation(command.namespace_id, command.key_digest)
        command = command.model_copy(update={"spec": receipt.request})
        fault_point("creation.claimed")
        if receipt.completed_at is not None:
            return ClaimedCreation(receipt=receipt, recorded=self._lives(receipt.answer))
        launches = command.spec.kind != "register"
        return ClaimedCreation(
            receipt=receipt,
            launch=launch_request(command, receipt.sidecar_verifier) if launches else None,
        )

    def _require_free(self, command: CreateCommand) -> None:
        """Refuse a taken session id before anything is launched for it.

        What is claimed already may have launched something; then `record` decides.
        """
        known = self._sessions.find(command.namespace_id, command.session_id)
        if known is None:
            return
        living = known.canonical.session.broker.endpoint_incarnation
        registered = command.spec.endpoint
        if registered is not None and registered.endpoint_incarnation == living:
            return
        if not self._is_closed(command, living):
            raise _taken(command, living)

    def _lives(self, answer: CreateAnswer | None) -> bool:
        """Whether the session of a complete creation is there and isn't being closed."""
        if answer is None:
            return False
        with suppress(MusterError):  # the answer stays the first one, whatever became of it
            deletion = self._deletion(answer.namespace_id, answer.session_id, answer.incarnation)
            known = self._sessions.find(answer.namespace_id, answer.session_id)
            living = known and known.canonical.session.broker.endpoint_incarnation
            return deletion is None and living == answer.incarnation
        return False

    def _file_claim(self, command: CreateCommand) -> CreationReceipt:
        verifier = self._verifier(command)
        filed: CreationReceipt | None = None
        try:
            filed = self._receipts.claim_creation(
                CreationReceipt(
                    namespace_id=command.namespace_id,
                    key_digest=command.key_digest,
                    request_digest=command.request_digest,
                    tool=command.spec.kind,
                    request=command.spec,
                    remote_create_key=command.remote_create_key,
                    session_id=command.session_id,
                    sidecar_verifier=verifier,
                    created_at=timestamp(datetime.now(UTC)),
                )
            )
            return filed
        finally:
            if command.spec.kind != "register":
                self._drop_unused_key(command, verifier, filed)

    def _drop_unused_key(
        self, command: CreateCommand, verifier: Verifier, filed: CreationReceipt | None
    ) -> None:
        """Remove a key that no claim names; a claim that failed may be there all the same."""
        with suppress(MusterError):
            if filed is None:
                filed = self._receipts.creation(command.namespace_id, command.key_digest)
            if filed is None or filed.sidecar_verifier != verifier:
                self._receipts.remove_key(command.namespace_id, verifier.key_id)

    def _verifier(self, command: CreateCommand) -> Verifier:
        if command.spec.endpoint is not None:
            return command.spec.endpoint.verifier
        pair = generate_key()
        self._receipts.write_key(command.namespace_id, pair.verifier.key_id, pair.private_pem)
        return pair.verifier

    @activity.defn(name=Activities.RECORD_CREATION)
    @coded
    async def record(self, request: RecordCreation) -> CreationRecorded:
        """Write the first document, then complete the receipt with the answer, and the list.

        Repeatable: an own earlier document is adopted, whatever it has become since.
        """
        document = await asyncio.to_thread(self._record, request)
        await all_of(
            asyncio.to_thread(self._file_answer, request.command, document),
            self._summaries.write(summary_of(document), view_of(document)),
        )
        return CreationRecorded(answer=create_answer(request.command, document))

    def _record(self, request: RecordCreation) -> SessionDocument:
        command = request.command
        self._undecided(command)
        document = first_document(command, self._broker(request), timestamp(datetime.now(UTC)))
        incarnation = document.canonical.session.broker.endpoint_incarnation
        if self._deletion(command.namespace_id, command.session_id, incarnation) is not None:
            raise SessionClosing(
                f"incarnation {incarnation} of session {command.session_id} was closed; "
                "it doesn't live again, create another",
                incarnation=incarnation,
            )
        try:
            stored = self._sessions.create(
                document, lambda living: self._is_closed(command, living)
            )
        except EndpointStale as error:
            raise _taken(command, error.details["incarnation"]) from error
        _require_same_intent(stored, document)
        return stored

    def _file_answer(self, command: CreateCommand, document: SessionDocument) -> None:
        receipt = self._undecided(command)
        if receipt.completed_at is None:
            answered = {
                "answer": create_answer(command, document),
                "sidecar_verifier": document.canonical.session.broker.sidecar_verifier,
            }
            self._write_completed(receipt.model_copy(update=answered))
        fault_point("creation.receipt_written")

    def _undecided(self, command: CreateCommand) -> CreationReceipt:
        """The receipt of a creation that wasn't given up; raises ResourceGone if it was."""
        receipt = self._receipt(command)
        if receipt.failure is not None:
            raise ResourceGone(f"creation {command.key_digest} was given up meanwhile")
        return receipt

    def _broker(self, request: RecordCreation) -> Broker:
        command, registered = request.command, request.command.spec.endpoint
        if registered is not None:
            return Broker(
                workspace=command.spec.workspace,
                runtime=command.spec.runtime,
                endpoint_url=registered.endpoint_url,
                endpoint_generation=registered.endpoint_generation,
                endpoint_incarnation=registered.endpoint_incarnation,
                sidecar_verifier=registered.verifier,
                runtime_queue=request.runtime_queue,
            )
        launched = request.launched
        if launched is None:
            raise StateCorrupt(f"creation {command.key_digest} has neither launch nor endpoint")
        return Broker(
            workspace=command.spec.workspace,
            runtime=command.spec.runtime,
            endpoint_url=launched.endpoint.endpoint_url,
            endpoint_generation=0,
            endpoint_incarnation=launched.endpoint.incarnation,
            sidecar_verifier=(
                launched.endpoint.verifier
                if request.accept_verifier
                else self._reconciled(request.receipt, launched)
            ),
            runtime_queue=request.runtime_queue,
        )

    def _reconciled(self, receipt: CreationReceipt, launched: Launched) -> Verifier:
        held = [
            key_id
            for key_id in (launched.used_key_id,)
            if self._receipts.holds_key(receipt.namespace_id, key_id)
        ]
        return reconcile_verifier(receipt.sidecar_verifier, launched, held)

    def _is_closed(self, command: CreateCommand, incarnation: str) -> bool:
        """Whether an incarnation's close is complete: what is left of it may be replaced."""
        tombstone = self._deletion(command.namespace_id, command.session_id, incarnation)
        return tombstone is not None and tombstone.answer is not None

    def _deletion(self, namespace: str, session_id: str, incarnation: str) -> Tombstone | None:
        """What a close of this incarnation has filed, complete or not."""
        return self._receipts.tombstone(namespace, deletion_id(session_id, incarnation))

    @activity.defn(name=Activities.FAIL_CREATION)
    @coded
    async def fail(self, request: FailCreation) -> None:
        """File the failure, then take the private key away: no late launch can begin without it.

        The first outcome stays. What was launched is ended after this, so that a launch which
        began before is found, and one that begins later isn't left behind.
        """
        await asyncio.to_thread(self._fail, request)

    def _fail(self, request: FailCreation) -> None:
        receipt = self._receipt(request.command)
        if receipt.completed_at is None and receipt.failure is None:
            self._receipts.replace_creation(
                receipt.model_copy(update={"answer": None, "failure": request.failure})
            )
        if request.command.spec.kind != "register":
            self._receipts.remove_key(receipt.namespace_id, receipt.sidecar_verifier.key_id)

    @activity.defn(name=Activities.COMPLETE_CREATION)
    @coded
    async def complete(self, request: CompleteCreation) -> None:
        """Say on the receipt what became of the creation; the first time stays."""
        receipt = await asyncio.to_thread(self._complete, request.command)
        if receipt.failure is not None:
            await self._summaries.close(
                receipt.namespace_id,
                receipt.session_id,
                None,
                receipt.completed_at or timestamp(datetime.now(UTC)),
                MusterStatus.FAILED,
            )

    def _complete(self, command: CreateCommand) -> CreationReceipt:
        receipt = self._receipt(command)
        if receipt.completed_at is None:
            receipt = self._write_completed(receipt)
        return receipt

    def _write_completed(self, receipt: CreationReceipt) -> CreationReceipt:
        completed = receipt.model_copy(update={"completed_at": timestamp(datetime.now(UTC))})
        self._receipts.replace_creation(completed)
        return completed

    def _receipt(self, command: CreateCommand) -> CreationReceipt:
        receipt = self._receipts.creation(command.namespace_id, command.key_digest)
        if receipt is None:
            raise StateCorrupt(f"creation {command.key_digest} has lost its claim")
        return receipt

    @activity.defn(name=Activities.MARK_CREATION_UNCERTAIN)
    @coded
    async def mark_uncertain(self, request: MarkUncertain) -> None:
        """Show the creation in the list of sessions, with the workflow that waits."""
        receipt = await asyncio.to_thread(
            self._receipts.creation, request.namespace_id, request.key_digest or ""
        )
        if receipt is not None:
            await self._summaries.mark_uncertain(
                summary_of_uncertain_creation(receipt, request.reason, activity.info().workflow_id)
            )


def _require_same_intent(stored: SessionDocument, document: SessionDocument) -> None:
    if stored.creation_intent_digest != document.creation_intent_digest:
        raise IdempotencyConflict(
            f"session {document.session_id} was created with another intent under this "
            "incarnation; choose another session id",
            session_id=document.session_id,
        )


def _taken(command: CreateCommand, living: object) -> SessionClosing:
    return SessionClosing(
        f"session {command.session_id} already lives as {living}; "
        "choose another session id or close it first",
        incarnation=living,
    )
