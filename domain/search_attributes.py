"""Names and types of the search attributes that every workflow sets.

Keep the names short and never retype one: a namespace can't change an attribute's type.
"""

from __future__ import annotations

from typing import Final, Literal

AttributeType = Literal["Keyword", "Datetime"]

NAMESPACE: Final = "MusterNamespace"
SESSION: Final = "MusterSession"
SCHEDULE: Final = "MusterSchedule"
STORAGE_KEY: Final = "MusterStorageKey"
TARGET: Final = "MusterTarget"
STATUS: Final = "MusterStatus"
ACTIVITY_AT: Final = "MusterActivityAt"

SEARCH_ATTRIBUTES: Final[dict[str, AttributeType]] = {
    NAMESPACE: "Keyword",
    SESSION: "Keyword",
    SCHEDULE: "Keyword",
    STORAGE_KEY: "Keyword",
    TARGET: "Keyword",
    STATUS: "Keyword",
    ACTIVITY_AT: "Datetime",
}
"""Each attribute's type, in the words of the `temporal` command."""
