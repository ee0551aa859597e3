"""A worker process of a fault test: the real entry point, started by a fork server.

The fork server has everything imported, so that a worker is there in a tenth of a second. The
test keeps the other end of `orders`: it arms fault points while the worker runs, and when the
test's process ends, the worker does too.
"""

from __future__ import annotations

import os
import sys
import threading
from multiprocessing.connection import Connection
from pathlib import Path

from muster.domain.faults import arm_from_environment
from muster.worker import __main__ as entry


def run(environ: dict[str, str], log: Path, orders: Connection) -> None:
    """Be a worker with this environment and no other; never returns."""
    os.environ.clear()
    os.environ.update(environ)
    output = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    for stream in (sys.stdout, sys.stderr):
        os.dup2(output, stream.fileno())
    threading.Thread(target=_take_orders, args=(orders,), daemon=True).start()
    status = entry.main()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


def _take_orders(orders: Connection) -> None:
    """Arm what the test asks for, as `MUSTER_FAULTS` would; end with the test."""
    try:
        while True:
            arm_from_environment({"MUSTER_FAULTS": orders.recv()})
            orders.send("armed")
    except (EOFError, OSError):
        os._exit(1)
