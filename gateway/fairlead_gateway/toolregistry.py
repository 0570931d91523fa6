"""Deprecated import path of `fairlead_client`; its names still work and warn."""

from __future__ import annotations

import sys
import warnings
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fairlead_client import *  # noqa: F403  # what type checkers see


def __getattr__(name: str) -> Any:
    return import_moved(name, __name__)


def import_moved(name: str, module: str) -> Any:
    """Return a public name of `fairlead_client` that was imported from `module`, and warn.

    It warns once per name and module. Raises AttributeError for a name that `fairlead_client` does not export.
    """
    client = import_module("fairlead_client")
    if name not in client.__all__:  # for example `__path__`, which the import system looks up
        raise AttributeError(f"module {module!r} has no attribute {name!r}")
    text = f"`from {module} import {name}` is deprecated; write `from fairlead_client import {name}`"
    warnings.warn(text, DeprecationWarning, stacklevel=3)  # the caller of `__getattr__`; importlib does not count
    value = vars(sys.modules[module])[name] = getattr(client, name)
    return value
