"""Extras of the Python package (`pyproject.toml`), and the command that installs one.

`importlib.metadata` is imported with the first such command, as that takes a tenth of what a short command takes.
"""

from __future__ import annotations

import json
from typing import Final
from urllib.parse import unquote, urlsplit

PACKAGE: Final = "fairlead"


def install_command(extra: str) -> str:
    """Command that installs Fairlead with an extra. A package that was installed from a folder, such as a clone, is
    named by the folder (PEP 610, `direct_url.json`), any other by its name.
    """
    return f"pip install '{requirement(_direct_url())}[{extra}]'"


def requirement(direct_url: str | None) -> str:
    """Requirement for pip. `direct_url` is the content of the installed package's `direct_url.json`."""
    origin = json.loads(direct_url or "{}")
    return unquote(urlsplit(origin["url"]).path) if "dir_info" in origin else PACKAGE


def _direct_url() -> str | None:
    from importlib.metadata import PackageNotFoundError, distribution

    try:
        return distribution(PACKAGE).read_text("direct_url.json")
    except PackageNotFoundError:  # not installed, but run from its sources
        return None
