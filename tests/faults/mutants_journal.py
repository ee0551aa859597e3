"""Mutants of the journal: answers ahead of the disk, ids not looked up, an index believed."""

from __future__ import annotations

from tests.faults.mutant import Mutant

_JOURNAL = "stores/files/journal.py"
_LINES = "stores/files/journal_lines.py"
_RECOVERY = "stores/files/journal_recovery.py"
_READING = "stores/files/journal_reading.py"

_CALLS = ("tests/faults/test_journal_calls.py",)
_STATES = ("tests/faults/test_journal_calls.py", "-k", "power_cut")
_DAMAGE = ("tests/stores/files/test_journal_damage.py",)
_BEHAVIOUR = ("tests/stores/files/test_journal.py",)

JOURNAL_MUTANTS: tuple[Mutant, ...] = (
    Mutant(
        "journal: no fsync of a batch",
        _JOURNAL,
        "            calls.current().fsync(file)\n        except OSError:",
        "            pass\n        except OSError:",
        _STATES,
    ),
    Mutant(
        "journal: no folder fsync for a new segment",
        _JOURNAL,
        "        if tail.size == 0:\n            calls.current().fsync(folder)\n",
        "",
        _STATES,
    ),
    Mutant(
        "journal: no folder fsync between rename and new segment",
        _JOURNAL,
        "        calls.current().fsync(folder)\n        self._recovery.sealed(tail.first)\n",
        "        self._recovery.sealed(tail.first)\n",
        ("tests/faults/test_journal_calls.py", "-k", "closed_a_moment_ago"),
    ),
    Mutant(
        "journal: ids aren't looked up",
        _JOURNAL,
        "if each.public_event_id not in known:",
        "if each.public_event_id not in {one.public_event_id for one in fresh}:",
        _BEHAVIOUR,
    ),
    Mutant(
        "journal: an index ahead is believed",
        _RECOVERY,
        "if mark is not None and not _in_journal(folder, mark):",
        "if mark is None and _in_journal(folder, Mark(0, 0, 0, 0, b'')):",
        _DAMAGE,
    ),
    Mutant(
        "journal: what a dead writer left isn't synced",
        _RECOVERY,
        "if covered != mark or self._newly_sealed(found):",
        "if self._newly_sealed(found):",
        _CALLS,
    ),
    Mutant(
        "journal: a torn end is cut without being kept",
        _RECOVERY,
        "                self._set_aside(folder, os.pread(file, size - end, end))\n",
        "",
        _DAMAGE,
    ),
    Mutant(
        "journal: blocks that are missing count as damage",
        _LINES,
        'elif b"\\0" in raw:',
        "elif not raw:",
        _STATES,
    ),
    Mutant(
        "journal: damage to an old batch counts as torn",
        _LINES,
        "    if before is not None and before.seq + 1 < last.batch:\n",
        "    if before is None and last is None:\n",
        _DAMAGE,
    ),
    Mutant(
        "journal: a reader is shown what isn't synced",
        _READING,
        "    if unsynced and page.events and newest_line and page.after >= newest_line.batch:\n",
        "    if newest_line is None:\n",
        _CALLS,
    ),
)
