"""Real power cuts: a loop-mounted filesystem that is shut down without flushing its log.

`FS_IOC_SHUTDOWN` drops everything that isn't on the device, as xfstests does it. Needs root, loop
devices and the filesystem's mkfs.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import shutil
import struct
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

Filesystem = Literal["ext4", "xfs"]

_SHUTDOWN = 0x8004587D
_WITHOUT_LOG_FLUSH = struct.pack("I", 2)
_MIB = 1 << 20
_SIZES = {"ext4": 32 * _MIB, "xfs": 320 * _MIB}
_OPTIONS = {"ext4": "loop", "xfs": "loop,nouuid"}
_MKFS = {"ext4": ("mkfs.ext4", "-q", "-F"), "xfs": ("mkfs.xfs", "-q", "-f")}
_libc = ctypes.CDLL(None, use_errno=True)


def why_impossible(filesystem: Filesystem, scratch: Path) -> str | None:
    """Why this machine can't cut the power of such a filesystem, or None when it can."""
    if os.geteuid() != 0:
        return "mounting needs root"
    if not Path("/dev/loop-control").exists():
        return "there are no loop devices"
    for program in (_MKFS[filesystem][0], "mount", "umount"):
        if shutil.which(program) is None:
            return f"{program} isn't installed"
    try:
        disk = Disk(filesystem, scratch)
        with disk.mounted(disk.image()) as mount:
            disk.cut(mount, flushed=False)
    except (OSError, subprocess.CalledProcessError) as error:
        output = getattr(error, "stderr", None)
        return f"a trial failed: {error} {output.decode() if output else ''}".strip()
    return None


class Disk:
    """An empty filesystem in an image file, to be filled once and copied for each cut."""

    def __init__(self, filesystem: Filesystem, scratch: Path) -> None:
        self.filesystem = filesystem
        self._scratch = scratch / filesystem
        self._scratch.mkdir(exist_ok=True)
        self.template = self._scratch / "template.img"
        self.template.unlink(missing_ok=True)
        with self.template.open("wb") as image:
            image.truncate(_SIZES[filesystem])
        _run(*_MKFS[filesystem], str(self.template))

    def image(self) -> Path:
        """A fresh copy of the template; the one before is overwritten."""
        image = self._scratch / "cut.img"
        _run("cp", "--sparse=always", str(self.template), str(image))
        return image

    @contextmanager
    def mounted(self, image: Path) -> Iterator[Path]:
        """Mount an image; unmounted again whatever happens inside."""
        mount = self._scratch / "mounted"
        mount.mkdir(exist_ok=True)
        _run(
            "mount", "-o", _OPTIONS[self.filesystem], "-t", self.filesystem, str(image), str(mount)
        )
        try:
            yield mount
        except BaseException:
            _run("umount", "--lazy", str(mount))
            raise
        _run("umount", str(mount))

    def cut(self, mount: Path, *, flushed: bool) -> None:
        """Cut the power: nothing reaches the disk any more.

        With `flushed` everything written so far has reached it just before: the other extreme.
        """
        descriptor = os.open(mount, os.O_RDONLY | os.O_DIRECTORY)
        try:
            if flushed and _libc.syncfs(descriptor) != 0:
                raise OSError(ctypes.get_errno(), "syncfs failed", str(mount))
            fcntl.ioctl(descriptor, _SHUTDOWN, _WITHOUT_LOG_FLUSH)
        finally:
            os.close(descriptor)


def _run(*command: str) -> None:
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
