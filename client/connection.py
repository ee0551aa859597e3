"""Which Temporal and which MongoDB a client talks to, and how it gets there.

What is configured is used. When nothing is, a development stack that runs in this folder or one
above it is; without one, the usual addresses on this machine.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from temporalio.client import Client
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.envconfig import ClientConfigProfile
from temporalio.service import RPCError

from muster.client.failures import coded
from muster.client.local_stack import StackInfo, TemporalInfo, TemporalKind, find_stack
from muster.client.settings import ClientSettings
from muster.domain.errors import InvalidInput, MongoUnavailable, MusterError, TemporalUnavailable

CONNECT_SECONDS = 10.0
"""How long a server may take to answer for the first time."""

DEFAULT_TEMPORAL_ADDRESS = "localhost:7233"
USUAL = "the usual address"
DEFAULT_MONGO_URI = "mongodb://127.0.0.1:27017"


@dataclass(frozen=True, slots=True)
class Servers:
    """The chosen servers, and why these."""

    profile: ClientConfigProfile
    mongo_uri: str
    temporal_from: str
    mongo_from: str
    stack: StackInfo | None

    @property
    def address(self) -> str:
        """The Temporal server's address."""
        return self.profile.address or DEFAULT_TEMPORAL_ADDRESS

    @property
    def ui_url(self) -> str | None:
        """The Temporal UI's address, if it is known."""
        return self.stack.temporal.ui_url if self.stack and self.stack.temporal else None


def choose_servers(
    settings: ClientSettings,
    *,
    environ: Mapping[str, str] | None = None,
    folder: Path | None = None,
) -> Servers:
    """Decide between what is configured, a running stack and the usual addresses.

    Args:
        environ: Instead of this process's environment.
        folder: Where to look for a stack, instead of the working directory.

    Raises:
        InvalidInput: Temporal's client configuration can't be read.
        MongoUnavailable: The stack has no MongoDB server, or not yet.
    """
    profile = load_profile(os.environ if environ is None else environ)
    stack = _fitting_stack(profile, settings, folder or Path.cwd())
    found = f"the stack of {stack.data_dir}" if stack else USUAL
    temporal_from, mongo_from = "TEMPORAL_ADDRESS or temporal.toml", "MUSTER_MONGO_URI"
    mongo_uri = settings.mongo_uri
    if not profile.address:
        temporal_from = found
        profile = _plain_profile(stack.temporal) if stack and stack.temporal else profile
    if mongo_uri is None:
        mongo_from, mongo_uri = found, DEFAULT_MONGO_URI
        if stack:
            mongo_uri = _mongo_of(stack)
    return Servers(profile, mongo_uri, temporal_from, mongo_from, stack)


def stack_servers(stack: StackInfo, environ: Mapping[str, str] | None = None) -> Servers:
    """The servers of one stack, wherever it runs.

    Raises:
        InvalidInput: Temporal's client configuration can't be read.
        TemporalUnavailable, MongoUnavailable: The stack has none.
    """
    where = f"the stack of {stack.data_dir}"
    if stack.temporal is None:
        raise _lacks(stack, TemporalUnavailable, "Temporal")
    if stack.temporal.kind is TemporalKind.EXTERNAL:
        profile = load_profile(os.environ if environ is None else environ)
    else:
        profile = _plain_profile(stack.temporal)
    return Servers(profile, _mongo_of(stack), where, where, stack)


def _mongo_of(stack: StackInfo) -> str:
    if stack.mongo is None:
        raise _lacks(stack, MongoUnavailable, "MongoDB")
    return stack.mongo.uri


def _lacks(stack: StackInfo, error: type[MusterError], what: str) -> MusterError:
    """A stack that is half up isn't passed over for some other server at the usual address."""
    return error(
        f"the stack of {stack.data_dir} is {stack.state} and has no {what} server; wait until it "
        "is up, or stop it and start `muster dev` again"
    )


def _plain_profile(temporal: TemporalInfo) -> ClientConfigProfile:
    """A stack's own server: a key or certificate meant for some cluster would break this."""
    return ClientConfigProfile(address=temporal.address, namespace=temporal.namespace)


def _fitting_stack(
    profile: ClientConfigProfile, settings: ClientSettings, folder: Path
) -> StackInfo | None:
    """A running stack, unless what is configured names other servers than its own."""
    stack = find_stack(folder)
    if stack is None:
        return None
    temporal = stack.temporal.address if stack.temporal else None
    mongo = stack.mongo.uri if stack.mongo else None
    if profile.address and profile.address != temporal:
        return None
    if settings.mongo_uri and settings.mongo_uri != mongo:
        return None
    return stack


def load_profile(environ: Mapping[str, str]) -> ClientConfigProfile:
    """The Temporal client profile of `environ` and temporal.toml.

    Raises:
        InvalidInput: The file or a variable can't be read as one.
    """
    try:
        return ClientConfigProfile.load(override_env_vars=dict(environ))
    except (RuntimeError, ValueError) as error:
        raise InvalidInput(
            f"the Temporal client configuration can't be read: {error}. Correct the TEMPORAL_* "
            "variables or temporal.toml"
        ) from error


async def connect_temporal(servers: Servers) -> Client:
    """A client of the chosen Temporal server.

    Raises:
        TemporalUnavailable: Nothing usable answers there, or it refuses the credentials.
    """
    if servers.stack is not None and servers.stack.temporal is None:
        raise _lacks(servers.stack, TemporalUnavailable, "Temporal")
    profile = replace(servers.profile, address=servers.address)
    try:
        async with asyncio.timeout(CONNECT_SECONDS):
            return await Client.connect(
                **profile.to_client_connect_config(), data_converter=pydantic_data_converter
            )
    except RPCError as error:
        raise coded(error) from error
    except (RuntimeError, ValueError, OSError, TimeoutError) as error:
        reason = str(error) or f"no answer within {CONNECT_SECONDS:.0f} s"
        raise TemporalUnavailable(
            f"no Temporal server answers at {servers.address} ({servers.temporal_from}): "
            f"{_short(reason)}. Start one (`muster dev` does), or correct TEMPORAL_ADDRESS, its "
            "TLS settings or temporal.toml"
        ) from error


def _short(reason: str) -> str:
    """The SDK's reason without the Rust types around it."""
    known = {
        "ConnectionRefused": "connection refused",
        "dns error": "the host name isn't known",
        "InvalidCertificate": "its certificate isn't trusted",
        "UnknownIssuer": "its certificate isn't trusted",
        "InvalidContentType": "it doesn't speak TLS",
        "HandshakeFailure": "the TLS handshake failed",
    }
    for mark, words in known.items():
        if mark in reason:
            return words
    return reason.removeprefix("Failed client connect: ")[:300]
