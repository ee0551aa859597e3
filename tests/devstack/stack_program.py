"""Run a stack without a worker on free ports: `python -m tests.devstack.stack_program DATA_DIR`."""

import asyncio
import os
import sys
from pathlib import Path

from rich.console import Console

from muster.devstack import StackOptions, print_event, print_stack, run_stack

if __name__ == "__main__":
    options = StackOptions(
        data_dir=Path(sys.argv[1]), worker=False, temporal_port=0, ui_port=0, mongo_port=0
    )
    status = asyncio.run(
        run_stack(
            options,
            lambda event: print_event(Console(stderr=True), event),
            lambda info: print_stack(Console(), info, as_json=True),
        )
    )
    sys.stdout.flush()
    os._exit(status)
