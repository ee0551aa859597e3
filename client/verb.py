"""How a function becomes a verb of the `muster` command.

A verb is a coroutine whose first argument is its `Call`; the rest are its own arguments and
options. Every verb takes the common options on top, and turns coded errors into exit statuses.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import traceback
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Annotated, Any, Self, get_type_hints

import typer
from pydantic import ValidationError

from muster.client.client import MusterClient
from muster.client.failures import invalid
from muster.client.output import Output
from muster.client.settings import ClientSettings, load_settings
from muster.domain.errors import MusterError

JsonOption = Annotated[
    bool, typer.Option("--json", help="One JSON object, or one on each line, for programs.")
]
QuietOption = Annotated[bool, typer.Option("--quiet", "-q", help="Ids only, one on each line.")]
NamespaceOption = Annotated[
    str | None,
    typer.Option("--namespace", "-n", help="Muster's namespace.", show_default="MUSTER_NAMESPACE"),
]
DebugOption = Annotated[
    bool, typer.Option("--debug", help="Show where an error came from.", show_default=False)
]

_COMMON: dict[str, Any] = {
    "as_json": JsonOption,
    "quiet": QuietOption,
    "namespace": NamespaceOption,
    "debug": DebugOption,
}


class Call:
    """One use of the command."""

    def __init__(self, settings: ClientSettings, out: Output, *, debug: bool = False) -> None:
        self.settings = settings
        self.out = out
        self.debug = debug

    @functools.cached_property
    def client(self) -> MusterClient:
        """The client, made when it is needed first."""
        return MusterClient(self.settings)

    async def session(self, prefix: str, *, include_closed: bool = False) -> str:
        """The session whose id begins with what the user gave."""
        return await self.client.sessions.resolve(prefix, include_closed=include_closed)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        if "client" in self.__dict__:
            await self.client.disconnect()


Verb = Callable[..., Coroutine[Any, Any, None]]


def verb(app: typer.Typer, name: str) -> Callable[[Verb], Verb]:
    """Make a coroutine the verb `name` of `app`."""

    def register(function: Verb) -> Verb:
        app.command(name)(_command(function))
        return function

    return register


def _command(function: Verb) -> Callable[..., None]:
    @functools.wraps(function)
    def command(
        *, as_json: bool, quiet: bool, namespace: str | None, debug: bool, **given: Any
    ) -> None:
        out = Output(as_json=as_json, quiet=quiet)
        with reporting(out, debug=debug):
            settings = load_settings(namespace=namespace)
            asyncio.run(_run(function, Call(settings, out, debug=debug), given))

    hints = get_type_hints(function, include_extras=True)
    _, *own = inspect.signature(function).parameters.values()
    common = [
        inspect.Parameter(
            name,
            inspect.Parameter.KEYWORD_ONLY,
            default=None if name == "namespace" else False,
            annotation=kind,
        )
        for name, kind in _COMMON.items()
    ]
    parameters = [
        each.replace(kind=inspect.Parameter.KEYWORD_ONLY, annotation=hints[each.name])
        for each in own
    ]
    del command.__wrapped__
    command.__signature__ = inspect.Signature([*parameters, *common])  # type: ignore[attr-defined]
    command.__annotations__ = {each.name: each.annotation for each in [*parameters, *common]}
    return command


async def _run(function: Verb, call: Call, given: dict[str, Any]) -> None:
    async with call:
        await function(call, **given)


@contextmanager
def reporting(out: Output, *, debug: bool) -> Iterator[None]:
    """Turn an error inside into its line and its exit status.

    Args:
        out: Where the line goes.
        debug: Show the traceback too.
    """
    try:
        yield
    except (typer.Exit, BrokenPipeError):
        raise
    except Exception as error:
        if debug:
            trace = "".join(traceback.format_exception(error))
            out.aside.print(trace, highlight=False, markup=False)
        found = _coded(error)
        out.error(found)
        raise typer.Exit(found.exit_status) from error


def _coded(error: Exception) -> MusterError:
    if isinstance(error, MusterError):
        return error
    if isinstance(error, ValidationError):
        return invalid(error)
    return MusterError(f"{type(error).__name__}: {error} (--debug shows where)")
