"""Find a Temporal server or the program for one: the first place that works.

Configuration that was given explicitly is used or reported, never passed over.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from temporalio.api.workflowservice.v1 import DescribeNamespaceRequest
from temporalio.client import Client
from temporalio.envconfig import ClientConfigProfile
from temporalio.service import RPCError, RPCStatusCode

from muster.client.local_stack import Attempt, TemporalKind
from muster.devstack.acquire import download_with_sdk, install_with_go
from muster.devstack.model import (
    EventKind,
    OnEvent,
    StackEvent,
    TemporalChoice,
)
from muster.domain.errors import InvalidInput, TemporalUnavailable

CONNECT_SECONDS = 10.0
"""How long an explicitly configured server may take to answer."""

VERSION_SECONDS = 20.0
"""How long a program may take to print its version."""

TEST_SERVER_PROGRAM = "temporal-test-server"


@dataclass(frozen=True, slots=True)
class TemporalFound:
    """A server that answers (`external`) or the program that will be one."""

    kind: TemporalKind
    where: str
    namespace: str
    attempts: tuple[Attempt, ...] = ()
    address: str | None = None
    program: Path | None = None


def cache_dir(environ: Mapping[str, str]) -> Path:
    """Muster's folder for programs that it fetched."""
    base = environ.get("XDG_CACHE_HOME") or Path(environ.get("HOME") or Path.home()) / ".cache"
    return Path(base) / "muster" / "bin"


def temporal_choice(given: TemporalChoice | None, environ: Mapping[str, str]) -> TemporalChoice:
    """`given`, else what `MUSTER_TEMPORAL` names, else `auto`."""
    if given is not None:
        return given
    named = environ.get("MUSTER_TEMPORAL") or TemporalChoice.AUTO
    try:
        return TemporalChoice(named)
    except ValueError:
        raise InvalidInput(
            f"MUSTER_TEMPORAL is {named!r}; it can be {', '.join(TemporalChoice)}"
        ) from None


async def find_temporal(
    choice: TemporalChoice, environ: Mapping[str, str], on_event: OnEvent
) -> TemporalFound:
    """The first Temporal server that works, with what was looked at on the way.

    Raises:
        TemporalUnavailable: Configured explicitly and silent, or nothing usable anywhere.
    """
    search = _Search(environ, on_event)
    if choice is not TemporalChoice.TEST_SERVER:
        external = await search.configured()
        if external is not None:
            return external
        for where, step in search.full_servers():
            if program := await search.attempt(where, step):
                return search.found(TemporalKind.SERVER, where, program)
    if choice is not TemporalChoice.SERVER and (
        program := await search.attempt("temporal-test-server", search.test_server)
    ):
        return search.found(TemporalKind.TEST_SERVER, "temporal-test-server", program)
    looked = "; ".join(f"{each.where}: {each.outcome}" for each in search.attempts)
    raise TemporalUnavailable(
        f"no Temporal server can be started ({looked}). Install the temporal command "
        "(https://docs.temporal.io/cli), or set TEMPORAL_ADDRESS to a running server"
    )


_Step = Callable[[], Awaitable[Path | str]]


class _Search:
    """One pass over the places; a step returns the program, or the reason why there is none."""

    def __init__(self, environ: Mapping[str, str], on_event: OnEvent) -> None:
        self.attempts: list[Attempt] = []
        self._environ = environ
        self._on_event = on_event
        self._cache = cache_dir(environ)
        self._profile = load_profile(environ)

    async def configured(self) -> TemporalFound | None:
        where = "TEMPORAL_ADDRESS, temporal.toml"
        if not self._profile.address:
            self._note(where, "not set")
            return None
        await check_external(self._profile)
        self._note(where, f"answers at {self._profile.address}", chosen=True)
        return TemporalFound(
            TemporalKind.EXTERNAL,
            where,
            self._profile.namespace or "default",
            tuple(self.attempts),
            address=self._profile.address,
        )

    def full_servers(self) -> list[tuple[str, _Step]]:
        return [
            ("temporal on PATH", self._on_path),
            (f"cache {self._cache}", self._in_cache),
            ("download by the Temporal SDK", self._downloaded),
            ("go install", self._built),
        ]

    async def attempt(self, where: str, step: _Step) -> Path | None:
        result = await step()
        if isinstance(result, str):
            self._note(where, result)
            return None
        self._note(where, str(result), chosen=True)
        return result

    def found(self, kind: TemporalKind, where: str, program: Path) -> TemporalFound:
        namespace = self._profile.namespace or "default"
        return TemporalFound(kind, where, namespace, tuple(self.attempts), program=program)

    async def _on_path(self) -> Path | str:
        program = shutil.which("temporal", path=self._environ.get("PATH"))
        return await usable(Path(program)) if program else "not there"

    async def _in_cache(self) -> Path | str:
        program = self._cache / "temporal"
        return await usable(program) if program.exists() else "not there"

    async def _downloaded(self) -> Path | str:
        return await download_with_sdk(self._cache, self._say)

    async def _built(self) -> Path | str:
        return await install_with_go(self._cache, self._environ, self._say)

    async def test_server(self) -> Path | str:
        return find_test_server(self._environ) or "not installed"

    def _say(self, message: str) -> None:
        self._on_event(StackEvent("temporal", EventKind.STEP, message))

    def _note(self, where: str, outcome: str, *, chosen: bool = False) -> None:
        self.attempts.append(
            Attempt(component="temporal", where=where, outcome=outcome, chosen=chosen)
        )


def find_test_server(environ: Mapping[str, str]) -> Path | None:
    """The test server's program, beside this Python or on PATH."""
    beside = Path(sys.executable).parent
    search_path = os.pathsep.join([str(beside), environ.get("PATH", "")])
    program = shutil.which(TEST_SERVER_PROGRAM, path=search_path)
    return Path(program) if program else None


def load_profile(environ: Mapping[str, str]) -> ClientConfigProfile:
    """The Temporal client profile of `environ` and temporal.toml.

    Raises:
        InvalidInput: The file or a variable can't be read as one.
    """
    try:
        return ClientConfigProfile.load(override_env_vars=environ)
    except (RuntimeError, ValueError) as error:
        raise InvalidInput(
            f"the Temporal client configuration can't be read: {error}. Correct the TEMPORAL_* "
            "variables or temporal.toml"
        ) from error


async def check_external(profile: ClientConfigProfile) -> None:
    """Return when the configured server answers and knows its namespace.

    Raises:
        TemporalUnavailable: It doesn't; the text says what to do.
    """
    address, namespace = profile.address, profile.namespace or "default"
    remedy = "Start it, correct the setting, or remove it to let Muster start a server of its own"
    try:
        async with asyncio.timeout(CONNECT_SECONDS):
            client = await Client.connect(**profile.to_client_connect_config())
            await client.workflow_service.describe_namespace(
                DescribeNamespaceRequest(namespace=namespace)
            )
    except RPCError as error:
        # A server may keep the description of a namespace to its operators.
        if error.status is RPCStatusCode.PERMISSION_DENIED:
            return
        raise TemporalUnavailable(
            f"the Temporal server at {address} refused namespace {namespace!r}: "
            f"{error.message}. {remedy}"
        ) from error
    except (RuntimeError, ValueError, OSError, TimeoutError) as error:
        reason = str(error) or f"no answer within {CONNECT_SECONDS:.0f} s"
        raise TemporalUnavailable(
            f"nothing usable answers at the configured Temporal address {address}: {reason}. "
            f"{remedy}"
        ) from error


async def usable(program: Path) -> Path | str:
    """`program` if it is a Temporal command with a development server, else why not."""
    try:
        process = await asyncio.create_subprocess_exec(
            program,
            "--version",
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        async with asyncio.timeout(VERSION_SECONDS):
            output, _ = await process.communicate()
    except OSError as error:
        return f"{program} can't be run: {error.strerror}"
    except TimeoutError:
        process.kill()
        await process.wait()
        return f"{program} doesn't answer"
    if process.returncode != 0 or b"Server" not in output:
        return f"{program} isn't a Temporal command with a development server"
    return program
