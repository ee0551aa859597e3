"""Creation: which requests are the same, what the first document owes, and which key holds."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from muster.domain.creation import (
    CreateCommand,
    CreateSpec,
    InitialEvent,
    RegisteredEndpoint,
    create_answer,
    creation_intent_digest,
    differing_fields,
    first_document,
    initial_prompt_change,
    launch_request,
    reconcile_verifier,
    require_same_creation,
    session_snapshot,
)
from muster.domain.errors import IdempotencyConflict, TerminalUncertain
from muster.domain.identifiers import default_session_id
from muster.domain.runtime import Endpoint, Launched, RuntimeKind, Verifier
from muster.domain.session_document import Broker
from muster.domain.session_rules import check_document
from muster.domain.transitions import apply
from muster.domain.turn_model import Content
from tests.domain import builders as b

BROKER = b.idle().canonical.session.broker
OTHER = Verifier(key_id="b" * 64, public_key="b3RoZXI=")


def _command(**fields: Any) -> CreateCommand:
    spec = CreateSpec.model_validate({"cwd": "/home/dev", "session_id": b.SESSION, **fields})
    return CreateCommand(namespace_id=b.NAMESPACE, key_digest=b.key("create"), spec=spec)


def _digest(command: CreateCommand, at: str = b.moment(), broker: Broker = BROKER) -> str:
    return creation_intent_digest(command, session_snapshot(command, broker, at))


def test_the_intent_s_digest_leaves_out_when_it_was_observed() -> None:
    assert _digest(_command(), b.moment()) == _digest(_command(), b.moment(99))
    seen = [
        _command(initial_events=[{"kind": "import", "payload": {"created_at": at, "n": 1}}])
        for at in (b.moment(1), b.moment(2))
    ]
    assert _digest(seen[0]) == _digest(seen[1])


@pytest.mark.parametrize(
    "fields",
    [
        {"cwd": "/home/other"},
        {"title": "a title"},
        {"model": "m"},
        {"ephemeral": True},
        {"initial_state": "prepared"},
        {"initial_events": [{"kind": "import"}]},
        {"initial_prompt": {"text": "begin"}},
        {"kind": "delegate", "workflow": "plan", "initial_prompt": {"text": "begin"}},
    ],
)
def test_the_intent_s_digest_covers_what_the_creation_means(fields: dict[str, Any]) -> None:
    assert _digest(_command(**fields)) != _digest(_command())


def test_the_intent_s_digest_covers_the_endpoint_that_the_session_got() -> None:
    other = BROKER.model_copy(update={"endpoint_incarnation": "inc-2"})
    assert _digest(_command(), broker=other) != _digest(_command())


def test_a_key_that_comes_back_with_another_request_is_a_conflict_that_names_the_fields() -> None:
    first, second = _command().spec, _command(title="new", model="m").spec
    assert differing_fields(first, second) == ["title", "model"]
    with pytest.raises(IdempotencyConflict, match="title, model differs") as refused:
        require_same_creation(first, second)
    assert refused.value.details["fields"] == ["title", "model"]
    require_same_creation(first, _command().spec)


def test_the_same_request_has_the_same_digest_and_ids_each_time() -> None:
    assert _command().request_digest == _command().request_digest
    unnamed = _command(session_id=None)
    assert unnamed.session_id == default_session_id(b.key("create"))
    assert unnamed.remote_create_key == f"remote_{b.key('create')}"


def test_the_first_document_is_valid_and_owes_its_creation_and_the_initial_events() -> None:
    event = InitialEvent(kind="import", payload={"n": 1, "created_at": b.moment(9)})
    document = first_document(_command(initial_events=[event]), BROKER, b.moment())
    check_document(document)
    assert document.revision == 1
    assert sorted(each.kind for each in document.outbox.values()) == ["import", "session.created"]
    (imported,) = (each for each in document.outbox.values() if each.kind == "import")
    assert imported.payload == {"n": 1, "session_id": b.SESSION, "created_at": b.moment()}
    assert all(
        key == f"txn:{b.SESSION}:1:{each.kind}:session:{b.SESSION}:inc:{b.INCARNATION}"
        for key, each in document.outbox.items()
    )


def test_the_first_document_is_the_same_each_time_it_is_made() -> None:
    assert first_document(_command(), BROKER, b.moment()) == first_document(
        _command(), BROKER, b.moment()
    )


def test_the_initial_prompt_is_the_session_s_first_command_and_the_answer_names_its_turn() -> None:
    command = _command(
        kind="delegate", workflow="execute", initial_prompt=Content(text="begin").model_dump()
    )
    change = initial_prompt_change(command)
    assert change is not None
    document, _ = apply(first_document(command, BROKER, b.moment()), change, b.moment(1))
    answer = create_answer(command, document)
    assert document.canonical.queue.active_turn_id == answer.initial_turn_id
    assert document.canonical.turns[str(answer.initial_turn_id)].prompt.text == "begin"
    assert initial_prompt_change(_command()) is None


@pytest.mark.parametrize(
    "fields",
    [
        {"kind": "register"},
        {"kind": "delegate", "initial_prompt": {"text": "begin"}},
        {"kind": "delegate", "workflow": "plan"},
        {"workflow": "plan"},
        {"cwd": ""},
        {"title": "x" * 201},
        {"session_id": "../s"},
    ],
)
def test_a_request_whose_parts_don_t_fit_its_kind_is_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        _command(**fields)


def test_a_registration_names_an_endpoint_and_takes_no_prompt() -> None:
    endpoint = RegisteredEndpoint(
        endpoint_url="http://127.0.0.1:1", endpoint_incarnation="inc-1", verifier=b.VERIFIER
    ).model_dump()
    assert _command(kind="register", endpoint=endpoint).spec.endpoint is not None
    with pytest.raises(ValidationError):
        _command(kind="register", endpoint=endpoint, initial_prompt={"text": "begin"})
    with pytest.raises(ValidationError):
        _command(kind="start", endpoint=endpoint)


def test_the_launch_carries_the_public_half_and_the_key_that_makes_it_repeatable() -> None:
    request = launch_request(_command(model="m"), b.VERIFIER)
    assert request.verifier == b.VERIFIER
    assert request.remote_create_key == f"remote_{b.key('create')}"
    assert (request.cwd, request.model, request.session_id) == ("/home/dev", "m", b.SESSION)


def _launched(verifier: Verifier, used: str) -> Launched:
    endpoint = Endpoint(
        runtime=RuntimeKind.ACP,
        namespace_id=b.NAMESPACE,
        session_id=b.SESSION,
        incarnation=b.INCARNATION,
        endpoint_url="acp:sessions/s-1",
        verifier=verifier,
    )
    return Launched(endpoint=endpoint, used_key_id=used)


def test_only_the_runtime_s_proof_of_a_key_that_we_hold_changes_the_durable_one() -> None:
    durable = b.VERIFIER
    assert reconcile_verifier(durable, _launched(OTHER, durable.key_id), []) == durable
    held = [durable.key_id, OTHER.key_id]
    assert reconcile_verifier(durable, _launched(OTHER, OTHER.key_id), held) == OTHER
    for launched, keys in (
        (_launched(OTHER, OTHER.key_id), [durable.key_id]),
        (_launched(durable, OTHER.key_id), held),
    ):
        with pytest.raises(TerminalUncertain) as refused:
            reconcile_verifier(durable, launched, keys)
        assert refused.value.details["used_key_id"] == OTHER.key_id
