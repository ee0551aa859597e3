"""Mutants of what makes a session honest under kills: conditions, receipts, order, locks, keys."""

from __future__ import annotations

from tests.faults.mutant import Mutant

_STORE = "stores/files/sessions.py"


def _killed(row: str) -> tuple[str, ...]:
    return ("tests/faults/test_kill_points.py", "-k", row)


_COMMITS = ("tests/stores/files/test_sessions.py", "-k", "revision")
_REPEATS = ("tests/faults/test_commit_repeats.py",)
_REMOVED = ("tests/faults/test_removal_states.py",)
_FROZEN = ("tests/faults/test_zombie.py", "-k", "Prompt-files.temporary_written-SIGCONT")

_ACKNOWLEDGED_FIRST = """\
        first = await self.last_sequence(ref.namespace_id) + 1
        guessed = [
            PublicEvent(**each.model_dump(), seq=first + number)
            for number, each in enumerate(owed)
        ]
        await asyncio.to_thread(self._acknowledge, document, ref, guessed)
        published = await asyncio.to_thread(self._append, ref, owed)
"""

SESSION_MUTANTS: tuple[Mutant, ...] = (
    Mutant(
        "commit at any revision",
        _STORE,
        "            if _is_expected(before, expected_revision, delivered):\n",
        "            if expected_revision:\n",
        _COMMITS,
    ),
    Mutant(
        "commit without the folder's lock",
        _STORE,
        "        with self._tree.lock(folder, timeout=LOCK_SECONDS):\n",
        "        with self._tree.folders.open(folder, create=True):\n",
        _FROZEN,
    ),
    Mutant(
        "an unchanged document isn't made durable",
        _STORE,
        "                self._tree.settle(paths.session_document("
        "ref.namespace_id, ref.session_id))\n",
        "                pass\n",
        _REPEATS,
    ),
    Mutant(
        "a prompt's receipt isn't looked up",
        "domain/transitions/prompts.py",
        "    known = draft.prompts.get(change.key_digest)\n",
        "    known = None\n",
        _killed("Prompt-session.committed:1"),
    ),
    Mutant(
        "a removal counts as done before it is durable",
        _STORE,
        "            if not self._tree.remove_empty(folder):\n",
        "            if not self._tree.remove_empty(folder, durable=False):\n",
        _REMOVED,
    ),
    Mutant(
        "what a removal leaves standing isn't synced",
        _STORE,
        "                tree.settle(own)\n",
        "                pass\n",
        _REMOVED,
    ),
    Mutant(
        "events are acknowledged before they are appended",
        "activities/publishing.py",
        "        published = await asyncio.to_thread(self._append, ref, owed)\n",
        _ACKNOWLEDGED_FIRST,
        _killed("Create-session.committed"),
    ),
    Mutant(
        "a prompt is delivered under a fresh key",
        "activities/runtime.py",
        "                key=request.key,\n                turn_id=request.turn_id,\n",
        '                key=f"{request.key}-{asyncio.get_running_loop().time()}",\n'
        "                turn_id=request.turn_id,\n",
        _killed("Prompt-deliver.sent"),
    ),
)
