"""Mutants of the archive, readers' files and repair: nothing goes before it is elsewhere."""

from __future__ import annotations

from tests.faults.mutant import Mutant

_STORE = "stores/files/sessions.py"
_ARCHIVE = "stores/files/archive.py"
_PROJECTIONS = "stores/files/projections.py"
_MAINTENANCE = "activities/maintenance.py"

_LOSSES = ("tests/stores/files/test_archive.py", "-k", "loses_no_record or hold_everything")
_RECEIPTS = ("tests/stores/files/test_sessions.py", "-k", "years or old_key")
_DAMAGE = ("tests/stores/files/test_sessions.py", "-k", "damaged or corrupt")
_FILES = ("tests/stores/files/test_projections.py",)
_RECONCILED = ("tests/workflows/test_maintenance.py", "-k", "only_the_document or not_started")

ARCHIVE_MUTANTS: tuple[Mutant, ...] = (
    Mutant(
        "what leaves the document isn't archived",
        _STORE,
        "            self._archive.file(compacted.removed, after.revision)\n",
        "",
        _LOSSES,
    ),
    Mutant(
        "archived receipts are ignored",
        _STORE,
        "        if archived is not None:\n            return before, archived\n",
        "",
        _RECEIPTS,
    ),
    Mutant(
        "receipts aren't filed",
        _ARCHIVE,
        "        if receipts:\n",
        "        if not receipts:\n",
        _RECEIPTS,
    ),
    Mutant(
        "later attempts file over earlier ones",
        _ARCHIVE,
        'name = f"{revision:020d}-{sha256_hex(data)[:16]}.json"',
        'name = f"{revision % 2:020d}.json"',
        ("tests/workflows/test_maintenance.py", "-k", "pages"),
    ),
    Mutant(
        "a document that was set aside counts as none",
        _STORE,
        "        if aside:\n            raise StateCorrupt(\n",
        "        if aside and not aside:\n            raise StateCorrupt(\n",
        _DAMAGE,
    ),
    Mutant(
        "a document that is too large isn't set aside",
        _STORE,
        "UNREADABLE = (StateCorrupt, LimitExceeded, UnsafePath)",
        "UNREADABLE = (StateCorrupt, UnsafePath)",
        _DAMAGE,
    ),
    Mutant(
        "readers' files of what is gone stay",
        _PROJECTIONS,
        "        changed = self._write(folder, stale) + self._remove(folder, stray)\n",
        "        changed = self._write(folder, stale)\n",
        _FILES,
    ),
    Mutant(
        "the session's own file comes first",
        _PROJECTIONS,
        "        for name, data in files.items():\n",
        "        for name, data in reversed(files.items()):\n",
        _FILES,
    ),
    Mutant(
        "a session's work is nudged only if its workflow is gone",
        _MAINTENANCE,
        "        return summary is None or summary.revision < document.revision\n",
        "        return summary is None\n",
        _RECONCILED,
    ),
    Mutant(
        "a session is started before its creator does",
        _MAINTENANCE,
        "            return document.revision > 1 and document.closing is None\n",
        "            return document.closing is None\n",
        _RECONCILED,
    ),
)
