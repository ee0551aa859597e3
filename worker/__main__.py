"""`python -m muster.worker`."""

from __future__ import annotations

import asyncio
import logging
import os
import sys

from muster.domain.errors import MusterError
from muster.worker.run import run_worker
from muster.worker.settings import load_worker_settings


def main() -> int:
    """Run a worker until it is told to stop; returns the exit status."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    try:
        asyncio.run(run_worker(load_worker_settings()))
    except MusterError as error:
        print(f"error[{error.code}]: {error.message}", file=sys.stderr, flush=True)
        return error.exit_status
    return 0


if __name__ == "__main__":
    status = main()
    # The SDK's native threads may abort a process that tears down its interpreter under them.
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)
