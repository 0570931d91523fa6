"""`fairlead version`. Uses the base install only, and is quick."""

from __future__ import annotations

import platform
from importlib.machinery import EXTENSION_SUFFIXES
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

from fairlead_cli.output import Output, print_json

_PARTS = {"operator": "kopf", "gateway": "uvicorn", "up": "uv"}
"""Extra → a module that it brings."""


def run_version(output: Output) -> None:
    """Print the version of the distribution, of Python, whether it is compiled, and as JSON which extras there are."""
    try:
        own = version("fairlead")
    except PackageNotFoundError:
        own = "unknown"
    if output is Output.json:
        extras = [extra for extra, module in _PARTS.items() if find_spec(module) is not None]
        facts = {"fairlead": own, "python": platform.python_version(), "compiled": _is_compiled(), "extras": extras}
        print_json(facts)
    else:
        print(f"fairlead {own} (Python {platform.python_version()}{', compiled' if _is_compiled() else ''})")


def _is_compiled() -> bool:
    """Whether the path of a call is, as in the image. Looks for the file: importing it takes longer than all else."""
    spec = find_spec("fairlead_mcp")
    folders = () if spec is None else spec.submodule_search_locations or ()
    return any((Path(folder) / "http" / f"heads{EXTENSION_SUFFIXES[0]}").exists() for folder in folders)
