"""A process that launches one session, says so and stays: `launcher.py ROOT REQUEST`."""

from __future__ import annotations

import asyncio
import sys
import time
from pathlib import Path

from muster.domain.faults import arm_from_environment
from muster.domain.runtime import LaunchRequest
from muster.runtimes.acp.adapter import AcpRuntime

arm_from_environment()
request = LaunchRequest.model_validate_json(sys.argv[2])
launched = asyncio.run(AcpRuntime(Path(sys.argv[1])).launch(request))
print(launched.model_dump_json(), flush=True)
time.sleep(600)
