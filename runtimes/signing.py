"""Ed25519 keys and DSSE envelopes: how a runtime proves what it reports.

An envelope (Dead Simple Signing Envelope, github.com/secure-systems-lab/dsse) signs the
pre-authentication encoding of a type and a body, so that the bytes received are what is
verified and no two parsers can read one signature differently. The body binds itself to a
namespace, a session, an incarnation and a sequence; whoever reads it checks that binding.
"""

from __future__ import annotations

import base64
import binascii
import json
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import (
    Ed25519PrivateKey,
    Ed25519PublicKey,
)
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
)

from muster.domain.canonical import sha256_hex
from muster.domain.errors import SignatureInvalid
from muster.domain.runtime import Verifier

EVENT_TYPE = "application/vnd.muster.runtime-event+json"
"""Payload type of a runtime event."""

STATUS_TYPE = "application/vnd.muster.runtime-status+json"
"""Payload type of a runtime's answer to a nonce: the proof of the key it uses."""


@dataclass(frozen=True)
class KeyPair:
    """A fresh key: the public half to hand out, the private half as unencrypted PKCS8 PEM."""

    verifier: Verifier
    private_pem: bytes


class Signer:
    """Signs bodies with one private key."""

    def __init__(self, private_key: Ed25519PrivateKey) -> None:
        self._private_key = private_key
        self.verifier = _verifier_of(private_key)

    @classmethod
    def from_pem(cls, private_pem: bytes) -> Signer:
        """The signer of a PKCS8 PEM; ValueError if it isn't an Ed25519 key."""
        key = load_pem_private_key(private_pem, password=None)
        if not isinstance(key, Ed25519PrivateKey):
            raise ValueError("the private key isn't an Ed25519 key")
        return cls(key)

    def sign(self, payload_type: str, body: bytes) -> bytes:
        """The envelope of `body` as one line of JSON, without a line end."""
        signature = self._private_key.sign(pre_authentication_encoding(payload_type, body))
        envelope = {
            "payloadType": payload_type,
            "payload": base64.b64encode(body).decode(),
            "signatures": [
                {"keyid": self.verifier.key_id, "sig": base64.b64encode(signature).decode()}
            ],
        }
        return json.dumps(envelope, separators=(",", ":")).encode()


def generate_key() -> KeyPair:
    """A new Ed25519 key pair."""
    key = Ed25519PrivateKey.generate()
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return KeyPair(verifier=_verifier_of(key), private_pem=pem)


def private_key_path(namespace_id: str, key_id: str) -> PurePosixPath:
    """Where the private half of `key_id` lies under the state root."""
    return PurePosixPath("v2", namespace_id, "keys", f"{key_id}.pem")


def key_id_of(public_key: bytes) -> str:
    """The id of a raw public key: the sha256 of its bytes."""
    return sha256_hex(public_key)


def pre_authentication_encoding(payload_type: str, body: bytes) -> bytes:
    """The bytes that a DSSE signature covers."""
    kind = payload_type.encode()
    return b"DSSEv1 %d %b %d %b" % (len(kind), kind, len(body), body)


def verify(envelope: bytes, verifier: Verifier, payload_type: str) -> bytes:
    """The signed body of `envelope`.

    Raises SignatureInvalid if the envelope has another form or type, or if no signature in it
    was made with the verifier's key.
    """
    public_key = _public_key_of(verifier)
    signatures, body = _parts(envelope, payload_type)
    signed = pre_authentication_encoding(payload_type, body)
    for each in signatures:
        if each.get("keyid") != verifier.key_id:
            continue
        try:
            public_key.verify(_decode(each.get("sig")), signed)
        except InvalidSignature:
            continue
        return body
    raise SignatureInvalid(f"no valid signature by key {verifier.key_id} is on the envelope")


def _parts(envelope: bytes, payload_type: str) -> tuple[list[dict[str, Any]], bytes]:
    try:
        parsed = json.loads(envelope)
    except ValueError as error:
        raise SignatureInvalid(f"the envelope isn't JSON: {error}") from error
    if not isinstance(parsed, dict) or parsed.get("payloadType") != payload_type:
        raise SignatureInvalid(f"the envelope isn't of type {payload_type}")
    signatures = parsed.get("signatures")
    if not isinstance(signatures, list) or not all(isinstance(each, dict) for each in signatures):
        raise SignatureInvalid("the envelope has no list of signatures")
    return signatures, _decode(parsed.get("payload"))


def _decode(value: object) -> bytes:
    if not isinstance(value, str):
        raise SignatureInvalid("the envelope misses its payload or signature")
    try:
        return base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError) as error:
        raise SignatureInvalid(f"the envelope isn't in base64: {error}") from error


def _public_key_of(verifier: Verifier) -> Ed25519PublicKey:
    raw = _decode(verifier.public_key)
    if key_id_of(raw) != verifier.key_id or len(raw) != 32:
        raise SignatureInvalid(f"the public key isn't the one that {verifier.key_id} names")
    return Ed25519PublicKey.from_public_bytes(raw)


def _verifier_of(key: Ed25519PrivateKey) -> Verifier:
    raw = key.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
    return Verifier(key_id=key_id_of(raw), public_key=base64.b64encode(raw).decode())
