"""The development stack: finds or starts Temporal, MongoDB and one worker, and supervises them."""

from muster.client.local_stack import StackInfo, TemporalKind, read_stack
from muster.devstack.model import (
    EventKind,
    StackEvent,
    StackOptions,
    TemporalChoice,
)
from muster.devstack.report import print_event, print_stack, stack_table
from muster.devstack.run import run_stack
from muster.devstack.stack import Stack

__all__ = [
    "EventKind",
    "Stack",
    "StackEvent",
    "StackInfo",
    "StackOptions",
    "TemporalChoice",
    "TemporalKind",
    "print_event",
    "print_stack",
    "read_stack",
    "run_stack",
    "stack_table",
]
