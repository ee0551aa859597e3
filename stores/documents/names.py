"""Names of collections, stated once."""

from __future__ import annotations

SESSIONS = "sessions"
PUBLIC_EVENTS = "public_events"
CONTENTS = "contents"
CONTENT_CHUNKS = "content_chunks"
