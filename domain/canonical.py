"""Canonical JSON and digests.

Digests over requests and intents are taken over JSON with sorted keys and without white space,
so that two writers of the same value agree on its sha256.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any


def sha256_hex(data: bytes | str) -> str:
    """The sha256 of `data` (text as UTF-8) in 64 lower-case hexadecimal digits."""
    return hashlib.sha256(data.encode() if isinstance(data, str) else data).hexdigest()


def canonical_json(value: Any) -> str:
    """`value` as JSON with sorted keys, no white space and no NaN.

    Raises ValueError for NaN and infinities, TypeError for what JSON doesn't know.
    """
    return json.dumps(
        value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
    )


def canonical_digest(value: Any) -> str:
    """The sha256 of `value`'s canonical JSON."""
    return sha256_hex(canonical_json(value))
