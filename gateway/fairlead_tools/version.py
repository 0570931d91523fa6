"""Version of this release, and whether the code that runs for every call is compiled by mypyc."""

from __future__ import annotations

from importlib.machinery import EXTENSION_SUFFIXES
from importlib.metadata import PackageNotFoundError, version
from typing import Final

from fairlead_mcp.http import heads

NAME: Final = "fairlead"


def _installed_version() -> str:
    try:
        return version(NAME)
    except PackageNotFoundError:
        return "0"  # run from a source tree that was never installed


VERSION: Final = _installed_version()
COMPILED: Final = heads.__file__.endswith(tuple(EXTENSION_SUFFIXES))
"""Whether the code that runs for every call is compiled by mypyc, as in the image and in wheels of `hack/wheel`."""
