"""Where fault tests put thousands of small trees: in memory when there is room."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_MEMORY = Path("/dev/shm")


@contextmanager
def scratch_folder(need_bytes: int = 64 << 20) -> Iterator[Path]:
    """A new folder, removed at the end."""
    roomy = _MEMORY.is_dir() and shutil.disk_usage(_MEMORY).free > need_bytes
    base = _MEMORY if roomy else None
    with tempfile.TemporaryDirectory(prefix="muster-faults-", dir=base) as folder:
        yield Path(folder)
