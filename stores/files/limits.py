"""How large a file of each kind may be, in bytes.

The session document's two parts and the limits of keys, receipts and tombstones are those of the
system Muster replaces; a file past its limit is neither written nor read.
"""

from __future__ import annotations

KIB = 1024
MIB = 1024 * KIB

SESSION_DOCUMENT = MIB + 128 * KIB
"""1 MiB of content and a reserve of 128 KiB, so that a full session can still be answered,
ended and closed."""
PROJECTION = SESSION_DOCUMENT
RECEIPT = 64 * KIB
TOMBSTONE = 256 * KIB
HISTORY_ARCHIVE = 64 * MIB
KEY = 4 * KIB
ARTIFACT = 64 * MIB
ASIDE_REASON = 16 * KIB
"""The note beside a file that was set aside."""
