"""The environment of an agent: little, and never Muster's own.

An agent that inherited the worker's settings could reach Temporal or the session's commands and
answer its own questions. So it gets a short list of ordinary variables and what its launch
request names.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

import muster
from muster.domain.errors import InvalidInput

_INHERITED = (
    "PATH", "HOME", "USER", "LOGNAME", "SHELL", "TERM", "TZ", "TMPDIR", "LANG", "LC_ALL",
    "LC_CTYPE",
)  # fmt: skip
_REFUSED_PREFIXES = ("MUSTER_", "TEMPORAL_")


def base_environment(inherited: Mapping[str, str]) -> dict[str, str]:
    """The ordinary variables of `inherited`, with a path if there is none."""
    base = {name: inherited[name] for name in _INHERITED if name in inherited}
    base.setdefault("PATH", "/usr/local/bin:/usr/bin:/bin")
    return base


def check_environment(requested: Mapping[str, str]) -> None:
    """InvalidInput if `requested` hands the agent a variable of Muster or Temporal."""
    refused = [name for name in requested if name.startswith(_REFUSED_PREFIXES)]
    if refused:
        raise InvalidInput(
            f"an agent never gets {', '.join(sorted(refused))}: "
            "take MUSTER_ and TEMPORAL_ variables out of the request's environment"
        )


def module_command(module: str, *arguments: str) -> tuple[str, ...]:
    """The command line that runs a module of Muster's, wherever it is installed.

    It needs no variable that the process's own children would inherit, and never imports from
    the working directory.
    """
    root = Path(muster.__file__).parents[1]
    start = f"import runpy, sys; sys.path.insert(0, {str(root)!r}); "
    run = f"runpy.run_module({module!r}, run_name='__main__', alter_sys=True)"
    return (sys.executable, "-P", "-c", start + run, *arguments)
