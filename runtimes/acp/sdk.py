"""The one place that loads the Agent Client Protocol library.

On import the library builds a validator for each of its 280 models, after reading each field's
description out of its own source. A process uses a dozen of the models and none of the
descriptions. Building at first use and without descriptions takes 0.4 s instead of 1.1 s of
processor time, for every sidecar and every scripted agent.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pydantic


@contextmanager
def _lean_models() -> Iterator[None]:
    config_dict = pydantic.ConfigDict
    defaults = pydantic.BaseModel.model_config
    before = defaults.get("defer_build", False)

    def lean(**settings: object) -> dict[str, object]:
        return {**settings, "use_attribute_docstrings": False}

    setattr(pydantic, "ConfigDict", lean)  # noqa: B010 - it is a type to the type checker
    defaults["defer_build"] = True
    try:
        yield
    finally:
        setattr(pydantic, "ConfigDict", config_dict)  # noqa: B010
        defaults["defer_build"] = before


with _lean_models():
    import acp
    from acp import schema

__all__ = ["acp", "schema"]
