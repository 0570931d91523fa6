"""Former import path of `fairlead_client`, the Python client: names taken from here work and warn."""

from __future__ import annotations

import sys
import warnings
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fairlead_client import *  # noqa: F403  # what type checkers see


def __getattr__(name: str) -> Any:
    return moved(name, __name__)


def moved(name: str, module: str) -> Any:
    """Return a public name of `fairlead_client` to a caller that looked for it in `module`, and warn.

    A name warns once for each module. Raises AttributeError for a name that `fairlead_client` does not export.
    """
    client = import_module("fairlead_client")
    if name not in client.__all__:  # `__path__` and its like are asked for by the import system
        raise AttributeError(f"module {module!r} has no attribute {name!r}")
    text = f"`from {module} import {name}` is deprecated; write `from fairlead_client import {name}`"
    warnings.warn(text, DeprecationWarning, stacklevel=3)  # of `__getattr__`'s caller; frames of importlib do not count
    value = vars(sys.modules[module])[name] = getattr(client, name)
    return value
