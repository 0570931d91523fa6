"""`fairlead version`. Uses the base install only, and is quick."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec

from fairlead_cli.output import Output, print_json

_PARTS = {"operator": "kopf", "gateway": "uvicorn", "up": "uv"}
"""Extra → a module that it brings."""


def run_version(output: Output) -> None:
    """Print the version of the distribution, and of Python; as JSON also which extras are installed."""
    try:
        own = version("fairlead")
    except PackageNotFoundError:
        own = "unknown"
    if output is Output.json:
        extras = [extra for extra, module in _PARTS.items() if find_spec(module) is not None]
        print_json({"fairlead": own, "python": platform.python_version(), "extras": extras})
    else:
        print(f"fairlead {own} (Python {platform.python_version()})")
