"""The typed asynchronous client of Muster; the command `muster` stands on it."""

from muster.client.client import CreationStarted, MusterClient
from muster.client.connection import Servers, choose_servers, stack_servers
from muster.client.settings import ClientSettings, load_settings
from muster.client.waiting import Awaited

__all__ = [
    "Awaited",
    "ClientSettings",
    "CreationStarted",
    "MusterClient",
    "Servers",
    "choose_servers",
    "load_settings",
    "stack_servers",
]
