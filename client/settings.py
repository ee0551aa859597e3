"""What the client and the `muster` command are told by their environment.

Muster's own settings are variables named `MUSTER_*`. How Temporal is reached is Temporal's
client configuration and nothing else: `TEMPORAL_*` and `temporal.toml`.
"""

from __future__ import annotations

import socket
from typing import TypeVar

from pydantic import Field, ValidationError
from pydantic_settings import BaseSettings, SettingsConfigDict

from muster.domain.contracts import Placement
from muster.domain.errors import InvalidInput
from muster.domain.identifiers import NamespaceId, root_task_queue, runtime_task_queue


class ClientSettings(BaseSettings):
    """Where sessions are kept and for whom; each field is also the variable `MUSTER_<FIELD>`."""

    model_config = SettingsConfigDict(env_prefix="MUSTER_", frozen=True, extra="ignore")

    mongo_uri: str | None = None
    """None: a development stack's, else MongoDB's usual address on this machine."""
    mongo_database: str = Field(default="muster", min_length=1)
    namespace: NamespaceId = "default"
    """Muster's namespace, apart from Temporal's own."""
    root: str = Field(default="default", pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")
    """The name of the state root that new sessions are placed on."""
    runtime_host: str = Field(default_factory=socket.gethostname, min_length=1)
    """The host that owns the agents of new sessions."""
    timeout_seconds: float = Field(default=60.0, gt=0)
    """How long a command may take to be answered."""

    @property
    def placement(self) -> Placement:
        """The queues that a new session's work runs on."""
        return Placement(
            root_queue=root_task_queue(self.root),
            runtime_queue=runtime_task_queue(self.runtime_host),
        )


SettingsT = TypeVar("SettingsT", bound=ClientSettings)


def load_settings(**given: object) -> ClientSettings:
    """The settings of this process's environment; what is `given` and not None comes first.

    Raises:
        InvalidInput: A variable or a given value isn't usable; the text names each.
    """
    return read_settings(ClientSettings, **given)


def read_settings(kind: type[SettingsT], **given: object) -> SettingsT:
    """`load_settings` for settings that say more than a client's."""
    chosen = {name: value for name, value in given.items() if value is not None}
    try:
        return kind(**chosen)  # type: ignore[arg-type]
    except ValidationError as error:
        found = "; ".join(
            f"MUSTER_{'_'.join(map(str, each['loc'])).upper()}: {each['msg']}"
            for each in error.errors(include_url=False)
        )
        raise InvalidInput(f"a setting isn't usable: {found}") from error
