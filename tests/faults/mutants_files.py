"""Mutants of `stores/files/`: syncs left out, files written in place, links followed."""

from __future__ import annotations

from tests.faults.mutant import Mutant

_PRIVATE = "stores/files/private.py"
_BENEATH = "stores/files/beneath.py"
_FOLDERS = "stores/files/folders.py"
_CALLS = "stores/files/calls.py"

_STATES = ("tests/faults/test_crash_states.py",)
_ERRORS = ("tests/faults/test_file_errors.py",)
_PATHS = ("tests/stores/files/test_beneath.py",)
_BEHAVIOUR = ("tests/stores/files/test_private.py",)
_LOCKS = ("tests/stores/files/test_locks.py",)


def _cuts(operation: str) -> tuple[str, ...]:
    return ("tests/faults/test_power_cuts.py", "-k", f"at_any_call and {operation}-")


_FILE_SYNC = "                if durable:\n                    calls.current().fsync(file)\n"
_REPLACE_SYNC = (
    '            fault_point("files.renamed")\n'
    "            if durable:\n                calls.current().fsync(descriptor)\n"
)
_RENAME = "                calls.current().rename(descriptor, temporary, name)\n"
_IN_PLACE = """\
                flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
                target = os.open(name, flags, 0o600, dir_fd=descriptor)
                try:
                    calls.current().write(target, data)
                    calls.current().fsync(target)
                finally:
                    os.close(target)
                discard(descriptor, temporary)
"""
_STEP = """\
                calls.current().mkdir(parent, name)
        calls.current().fsync(parent)
"""

FILE_MUTANTS: tuple[Mutant, ...] = (
    Mutant("no fsync of the file (states)", _PRIVATE, _FILE_SYNC, "", _STATES),
    Mutant("no fsync of the file (power cut)", _PRIVATE, _FILE_SYNC, "", _cuts("replace")),
    Mutant(
        "replace without folder fsync (states)",
        _PRIVATE,
        _REPLACE_SYNC,
        '            fault_point("files.renamed")\n',
        _STATES,
    ),
    Mutant(
        "replace without folder fsync (power cut)",
        _PRIVATE,
        _REPLACE_SYNC,
        '            fault_point("files.renamed")\n',
        _cuts("replace"),
    ),
    Mutant(
        "create without folder fsync",
        _PRIVATE,
        "            calls.current().fsync(descriptor)\n            return created\n",
        "            return created\n",
        _STATES,
    ),
    Mutant(
        "create over an existing file answers without folder fsync",
        _PRIVATE,
        "            calls.current().fsync(descriptor)\n            return created\n",
        "            if created:\n                calls.current().fsync(descriptor)\n"
        "            return created\n",
        _STATES,
    ),
    Mutant(
        "remove without folder fsync",
        _PRIVATE,
        "                    if durable:\n"
        "                        calls.current().fsync(descriptor)\n"
        "                    return removed\n",
        "                    return removed\n",
        _STATES,
    ),
    Mutant(
        "remove_tree without folder fsync",
        _PRIVATE,
        "removed = remove_entry(descriptor, name)\n"
        "                    if durable:\n"
        "                        calls.current().fsync(descriptor)\n",
        "removed = remove_entry(descriptor, name)\n",
        _STATES,
    ),
    Mutant(
        "settle without fsync",
        _PRIVATE,
        "durable=True) as descriptor:\n                    calls.current().fsync(descriptor)\n",
        "durable=True):\n                    pass\n",
        _STATES,
    ),
    Mutant(
        "set_aside without folder fsync",
        _PRIVATE,
        "                raise\n            calls.current().fsync(descriptor)\n",
        "                raise\n",
        _STATES,
    ),
    Mutant(
        "set_aside overwrites an earlier one",
        _PRIVATE,
        "if free and self.create(",
        "if free is not None or self.create(",
        _BEHAVIOUR,
    ),
    Mutant(
        "a new folder's parent isn't synced",
        _FOLDERS,
        _STEP,
        "                calls.current().mkdir(parent, name)\n",
        _STATES,
    ),
    Mutant(
        "a dead writer's folder is believed durable",
        _FOLDERS,
        _STEP,
        "                calls.current().mkdir(parent, name)\n"
        "            calls.current().fsync(parent)\n",
        _STATES,
    ),
    Mutant("files overwritten in place (states)", _PRIVATE, _RENAME, _IN_PLACE, _STATES),
    Mutant(
        "files overwritten in place (power cut)", _PRIVATE, _RENAME, _IN_PLACE, _cuts("replace")
    ),
    Mutant("files overwritten in place (errors)", _PRIVATE, _RENAME, _IN_PLACE, _ERRORS),
    Mutant(
        "create by rename instead of link",
        _PRIVATE,
        "calls.current().link(folder, temporary, name)",
        "calls.current().rename(folder, temporary, name)",
        _BEHAVIOUR,
    ),
    Mutant(
        "temporary file left after an error",
        _PRIVATE,
        "        except BaseException:\n            discard(folder, name)\n            raise\n"
        "        return name\n",
        "        finally:\n            pass\n        return name\n",
        _ERRORS,
    ),
    Mutant(
        "fsync repeated after an error",
        _CALLS,
        'self.perform(Call("fsync", descriptor), lambda: os.fsync(descriptor))',
        'try:\n            self.perform(Call("fsync", descriptor), lambda: os.fsync(descriptor))\n'
        "        except OSError:\n"
        '            self.perform(Call("fsync", descriptor), lambda: os.fsync(descriptor))',
        _ERRORS,
    ),
    Mutant("a short write taken for a whole one", _CALLS, "while rest:", "if rest:", _ERRORS),
    Mutant(
        "openat2 without any RESOLVE flag",
        _BENEATH,
        "flags, 0, _BENEATH | _NO_SYMLINKS | _NO_MAGICLINKS)",
        "flags, 0, 0)",
        _PATHS,
    ),
    Mutant(
        "openat2 follows links that stay beneath",
        _BENEATH,
        "flags, 0, _BENEATH | _NO_SYMLINKS | _NO_MAGICLINKS)",
        "flags, 0, _BENEATH | _NO_MAGICLINKS)",
        _PATHS,
    ),
    Mutant(
        "the walk follows a link on the way",
        _BENEATH,
        "os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC",
        "os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC",
        _PATHS,
    ),
    Mutant(
        "the walk follows a link at the end",
        _BENEATH,
        "flags | os.O_NOFOLLOW)",
        "flags)",
        _PATHS,
    ),
    Mutant(
        "a refused openat2 isn't replaced by the walk",
        _BENEATH,
        "_REFUSED = {errno.ENOSYS, errno.EPERM}",
        "_REFUSED = {errno.ENOSYS}",
        _PATHS,
    ),
    Mutant(
        "a replaced root goes unnoticed",
        "stores/files/roots.py",
        "if found != known:",
        "if found is None:",
        _BEHAVIOUR,
    ),
    Mutant(
        "a lock on a removed folder counts",
        _PRIVATE,
        "if same_folder(descriptor, now):",
        "if now:",
        _LOCKS,
    ),
)
