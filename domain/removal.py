"""Takes entries out of a session's document and knows its size without encoding it again."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable
from functools import cached_property
from typing import Any

from pydantic import BaseModel

from muster.domain.history import PARTS, SessionHistory, empty_history
from muster.domain.session_document import SessionDocument

_CANONICAL = ("turns", "questions", "gate_authorities", "reports")
_REQUESTS = ("prompts", "answers", "operations")


class Removal:
    """What is to leave a document, and how many bytes are left without it.

    Args:
        document: It is never changed.
        size: The bytes of its encoding.
    """

    def __init__(self, document: SessionDocument, size: int) -> None:
        self.document = document
        self.size = size
        self.keys: dict[str, set[str]] = {part: set() for part in PARTS}

    def drop(self, part: str, key: str) -> None:
        """Take one entry out; one that is out already is passed over."""
        if key in self.keys[part]:
            return
        entries = self._part(part)
        separator = 1 if len(self.keys[part]) + 1 < len(entries) else 0
        self.size -= _encoded_length(key, entries[key]) + separator
        self.keys[part].add(key)

    def drop_turn(self, turn_id: str) -> None:
        """Take a turn out with all that belongs to it."""
        self.drop("turns", turn_id)
        for part, keys in self.of_turn(turn_id).items():
            for key in keys:
                self.drop(part, key)

    def of_turn(self, turn_id: str) -> dict[str, list[str]]:
        """The keys of what belongs to a turn, by part."""
        return {part: owners[turn_id] for part, owners in self._owned.items()}

    def is_entangled(self, turn_id: str) -> bool:
        """True if a gate of this turn is also named by another turn's question."""
        questions = self.document.canonical.questions
        return any(
            questions[each].turn_id != turn_id
            for gate in self._owned["gate_authorities"][turn_id]
            for each in self._questions_of_gate[gate]
        )

    def remaining(self) -> SessionDocument:
        """The document without what was taken out; itself if that is nothing."""
        if not any(self.keys.values()):
            return self.document
        document = self.document
        return document.model_copy(
            update={
                "canonical": document.canonical.model_copy(update=self._left(_CANONICAL)),
                "requests": document.requests.model_copy(update=self._left(_REQUESTS)),
                **self._left(("outbox",)),
            }
        )

    def removed(self) -> SessionHistory:
        """What was taken out."""
        return empty_history(self.document).model_copy(
            update={
                part: {key: each for key, each in self._part(part).items() if key in keys}
                for part, keys in self.keys.items()
                if keys
            }
        )

    def _left(self, parts: Iterable[str]) -> dict[str, Any]:
        return {
            part: {
                key: each for key, each in self._part(part).items() if key not in self.keys[part]
            }
            for part in parts
            if self.keys[part]
        }

    def _part(self, part: str) -> dict[str, Any]:
        document = self.document
        if part == "outbox":
            return document.outbox
        found: dict[str, Any] = getattr(
            document.canonical if part in _CANONICAL else document.requests, part
        )
        return found

    @cached_property
    def _questions_of_gate(self) -> dict[str, list[str]]:
        found: dict[str, list[str]] = defaultdict(list)
        for key, question in self.document.canonical.questions.items():
            found[question.authority_id].append(key)
        return found

    @cached_property
    def _owned(self) -> dict[str, dict[str, list[str]]]:
        """Part, then turn, to the keys of what belongs to that turn."""
        canonical, requests = self.document.canonical, self.document.requests
        owned: dict[str, dict[str, list[str]]] = {
            part: defaultdict(list) for part in PARTS if part not in ("turns", "outbox")
        }
        for key, question in canonical.questions.items():
            owned["questions"][question.turn_id].append(key)
        for key, gate in canonical.gate_authorities.items():
            turns = {canonical.questions[each].turn_id for each in self._questions_of_gate[key]}
            turns.add(getattr(gate.outcome, "turn_id", None) or "")
            for turn_id in sorted(turns - {""}):
                owned["gate_authorities"][turn_id].append(key)
        for key, report in canonical.reports.items():
            owned["reports"][report.turn_id].append(key)
        for key, prompt in requests.prompts.items():
            owned["prompts"][prompt.coordinator_turn_id or ""].append(key)
        for key, answer in requests.answers.items():
            owned["answers"][answer.turn_id].append(key)
        for key, operation in requests.operations.items():
            owned["operations"][str(operation.intent.get("turn_id") or "")].append(key)
        return owned


def _encoded_length(key: str, entry: BaseModel) -> int:
    quoted = json.dumps(key, ensure_ascii=False).encode()
    return len(quoted) + 1 + len(entry.model_dump_json().encode())
