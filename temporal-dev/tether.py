"""Run a command that doesn't outlive the process that started it.

`python tether.py PARENT_PID COMMAND...` asks the kernel for SIGTERM at the parent's death, then
becomes the command. It is a program of its own because that request, made between fork and exec
of a process with threads, could deadlock. Elsewhere than on Linux it only becomes the command.
"""

import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def _tie_to(parent: int) -> None:
    if not sys.platform.startswith("linux"):
        return
    import ctypes

    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl")
    # The parent may have died before the request: then nobody would send the signal.
    if os.getppid() != parent:
        sys.exit(1)


if __name__ == "__main__":
    _tie_to(int(sys.argv[1]))
    os.execvp(sys.argv[2], sys.argv[2:])
