"""Which release this is: for metrics, for `serverInfo` and for the OpenAPI document."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version
from typing import Final

NAME: Final = "fairlead"


def _installed() -> str:
    try:
        return version(NAME)
    except PackageNotFoundError:
        return "0"  # run from a source tree that was never installed


VERSION: Final = _installed()
