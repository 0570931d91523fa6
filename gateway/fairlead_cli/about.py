"""`fairlead version`: prints versions and installed extras, without importing anything but the base install."""

from __future__ import annotations

import platform
from importlib.machinery import EXTENSION_SUFFIXES
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

from fairlead_cli.output import Output, print_json

_EXTRA_MODULES = {"operator": "kopf", "gateway": "uvicorn", "up": "uv"}
"""For each extra, a module that the extra installs: if the module can be found, the extra is installed."""


def run_version(output: Output) -> None:
    """Print the versions of Fairlead and Python, whether Fairlead is compiled, and with JSON output the installed
    extras.
    """
    try:
        fairlead = version("fairlead")
    except PackageNotFoundError:
        fairlead = "unknown"
    if output is Output.json:
        extras = [extra for extra, module in _EXTRA_MODULES.items() if find_spec(module) is not None]
        facts = {
            "fairlead": fairlead,
            "python": platform.python_version(),
            "compiled": _is_compiled(),
            "extras": extras,
        }
        print_json(facts)
    else:
        print(f"fairlead {fairlead} (Python {platform.python_version()}{', compiled' if _is_compiled() else ''})")


def _is_compiled() -> bool:
    """Whether the modules that every call runs through are compiled, as in the image. Looks only for the file of one
    compiled module, because importing would be slow.
    """
    spec = find_spec("fairlead_mcp")
    folders = () if spec is None else spec.submodule_search_locations or ()
    return any((Path(folder) / "http" / f"heads{EXTENSION_SUFFIXES[0]}").exists() for folder in folders)
