"""What a client sends to the server, command by command."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pymongo.monitoring import (
    CommandFailedEvent,
    CommandListener,
    CommandStartedEvent,
    CommandSucceededEvent,
)


class SentCommands(CommandListener):
    """The commands that were sent, in order, without the driver's own."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.finds: list[Mapping[str, Any]] = []

    def started(self, event: CommandStartedEvent) -> None:
        self.names.append(event.command_name)
        if event.command_name == "find":
            self.finds.append(event.command)

    def succeeded(self, event: CommandSucceededEvent) -> None:
        """An answer is no command."""

    def failed(self, event: CommandFailedEvent) -> None:
        """A refusal is no command."""
