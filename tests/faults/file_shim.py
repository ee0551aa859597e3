"""File calls that are recorded, fail or die at the k-th.

Each shim writes at most `CHUNK` bytes at a time, so that a fault can fall into the middle of a
file. After a death every further call dies too: no clean-up of a dead process reaches the disk.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from typing import Literal, TypeVar, cast

from muster.stores.files.calls import Call, FileCalls

T = TypeVar("T")

CHUNK = 5_000

When = Literal["before", "after"]


class Died(BaseException):
    """The process ended here; not an Exception, so that nothing handles it."""


class CountingCalls(FileCalls):
    """The real calls in small writes, numbered from 1."""

    def __init__(self) -> None:
        self.count = 0
        self.made: list[Call] = []

    def perform(self, call: Call, action: Callable[[], T]) -> T:
        self.count += 1
        self.made.append(call)
        return self.reach(self.count, call, action)

    def reach(self, number: int, call: Call, action: Callable[[], T]) -> T:
        """Make the call with this number; subclasses interfere here."""
        if call.name == "write":
            return cast(T, os.write(call.descriptor, call.data[:CHUNK]))
        return action()


class FailingCalls(CountingCalls):
    """The k-th call fails once with an error number, before or although it did its work.

    An interrupted write has written nothing: the system tells how much otherwise.
    """

    def __init__(self, k: int, number: int, when: When) -> None:
        super().__init__()
        self.k, self.number, self.when = k, number, when

    def reach(self, number: int, call: Call, action: Callable[[], T]) -> T:
        if number != self.k:
            return super().reach(number, call, action)
        interrupted_write = call.name == "write" and self.number == errno.EINTR
        if self.when == "after" and not interrupted_write:
            result = super().reach(number, call, action)
            if call.name in ("create", "append_to"):
                os.close(cast(int, result))
        raise OSError(self.number, os.strerror(self.number), errno.errorcode[self.number])


class DyingCalls(CountingCalls):
    """The process dies before the k-th call, once `at_death` has run."""

    def __init__(self, k: int, at_death: Callable[[], None] = lambda: None) -> None:
        super().__init__()
        self.k, self.at_death = k, at_death

    def reach(self, number: int, call: Call, action: Callable[[], T]) -> T:
        if number == self.k:
            self.at_death()
        if number >= self.k:
            raise Died
        return super().reach(number, call, action)
