"""Fetch what a first use would fetch: `python -m muster.devstack.prepare`.

It says so while it lasts. For `make test`: a test run shows nothing of a server that a fixture
builds for minutes.
"""

from __future__ import annotations

import asyncio
import os
import sys

from muster.devstack.model import StackEvent, TemporalChoice
from muster.devstack.temporal import find_temporal
from muster.domain.errors import MusterError


def main() -> int:
    """Have a Temporal server's program at hand; 1 when there is none to be had."""
    environ = {name: value for name, value in os.environ.items() if name != "TEMPORAL_ADDRESS"}
    environ["TEMPORAL_CONFIG_FILE"] = os.devnull

    def say(event: StackEvent) -> None:
        print(f"{event.component}: {event.message}", file=sys.stderr, flush=True)

    try:
        asyncio.run(find_temporal(TemporalChoice.SERVER, environ, say))
    except MusterError as error:
        print(f"error[{error.code}]: {error.message}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
