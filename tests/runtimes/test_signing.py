"""Keys and envelopes."""

from __future__ import annotations

import base64
import hashlib
import json

import pytest

from muster.domain.errors import SignatureInvalid
from muster.runtimes.signing import (
    EVENT_TYPE,
    STATUS_TYPE,
    Signer,
    generate_key,
    pre_authentication_encoding,
    verify,
)


def test_the_key_id_is_the_digest_of_the_raw_public_key() -> None:
    verifier = generate_key().verifier

    raw = base64.b64decode(verifier.public_key)

    assert len(raw) == 32
    assert verifier.key_id == hashlib.sha256(raw).hexdigest()


def test_the_encoding_is_the_one_of_the_dsse_specification() -> None:
    encoded = pre_authentication_encoding("http://example.com/HelloWorld", b"hello world")

    assert encoded == b"DSSEv1 29 http://example.com/HelloWorld 11 hello world"


def test_a_signed_body_comes_back_byte_for_byte() -> None:
    pair = generate_key()
    body = '{"b": 1,  "a": "ü"}'.encode()

    envelope = Signer.from_pem(pair.private_pem).sign(EVENT_TYPE, body)

    assert verify(envelope, pair.verifier, EVENT_TYPE) == body


def test_an_envelope_by_another_key_is_refused_even_under_the_right_key_id() -> None:
    pair, other = generate_key(), generate_key()
    envelope = json.loads(Signer.from_pem(other.private_pem).sign(EVENT_TYPE, b"{}"))
    envelope["signatures"][0]["keyid"] = pair.verifier.key_id

    with pytest.raises(SignatureInvalid, match="no valid signature"):
        verify(json.dumps(envelope).encode(), pair.verifier, EVENT_TYPE)


def test_a_changed_body_is_refused() -> None:
    pair = generate_key()
    envelope = json.loads(Signer.from_pem(pair.private_pem).sign(EVENT_TYPE, b'{"seq":1}'))
    envelope["payload"] = base64.b64encode(b'{"seq":2}').decode()

    with pytest.raises(SignatureInvalid, match="no valid signature"):
        verify(json.dumps(envelope).encode(), pair.verifier, EVENT_TYPE)


def test_a_status_never_passes_for_an_event() -> None:
    pair = generate_key()
    envelope = json.loads(Signer.from_pem(pair.private_pem).sign(STATUS_TYPE, b"{}"))
    envelope["payloadType"] = EVENT_TYPE

    with pytest.raises(SignatureInvalid):
        verify(json.dumps(envelope).encode(), pair.verifier, EVENT_TYPE)


@pytest.mark.parametrize(
    "envelope", [b"", b"[]", b"{}", b'{"payloadType":"x"}', b"\xff", b'{"signatures": 1}']
)
def test_what_is_no_envelope_is_refused(envelope: bytes) -> None:
    with pytest.raises(SignatureInvalid):
        verify(envelope, generate_key().verifier, EVENT_TYPE)


def test_a_public_key_under_a_foreign_key_id_is_refused() -> None:
    pair, other = generate_key(), generate_key()
    mixed = pair.verifier.model_copy(update={"key_id": other.verifier.key_id})
    envelope = Signer.from_pem(pair.private_pem).sign(EVENT_TYPE, b"{}")

    with pytest.raises(SignatureInvalid, match="isn't the one"):
        verify(envelope, mixed, EVENT_TYPE)
