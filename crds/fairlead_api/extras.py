"""Extras of the Python package (`pyproject.toml`): the command that adds one, from where the package came."""

from __future__ import annotations

import json
from importlib.metadata import PackageNotFoundError, distribution
from typing import Final
from urllib.parse import unquote, urlsplit

PACKAGE: Final = "fairlead"


def install_command(extra: str) -> str:
    """Command that installs Fairlead with an extra: from the folder that it came from, as of a clone (PEP 610,
    `direct_url.json`), else by its name.
    """
    return f"pip install '{requirement(_direct_url())}[{extra}]'"


def requirement(direct_url: str | None) -> str:
    """Requirement that pip installs Fairlead by. `direct_url`: content of the installed package's `direct_url.json`."""
    origin = json.loads(direct_url or "{}")
    return unquote(urlsplit(origin["url"]).path) if "dir_info" in origin else PACKAGE


def _direct_url() -> str | None:
    try:
        return distribution(PACKAGE).read_text("direct_url.json")
    except PackageNotFoundError:  # run from its sources
        return None
