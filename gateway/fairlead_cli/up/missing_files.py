"""Checks that the files and modules on the command line of `fairlead up` exist."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path


def missing_paths(paths: Iterable[Path], tools: Iterable[str] = (), routes: Path | None = None) -> Iterator[str]:
    """A sentence for each file, folder or module that does not exist."""
    for path in paths:
        if not path.exists():
            yield f"{path} does not exist: give an mcp.json, a manifest, a folder of manifests or an OpenAPI document"
        elif path.suffix == ".py" and path.is_file():
            yield f"{path} is a Python file: to serve its tools, use --tools {path}"
    for tool_path in tools:
        if tool_path.endswith(".py") or "/" in tool_path:
            if not Path(tool_path).exists():
                yield f"--tools: {tool_path} does not exist: give a Python file or the name of a module"
        elif not _is_module(name := tool_path.partition(":")[0]):
            yield f"--tools: there is no module {name}: give a Python file or the name of a module"
    if routes is not None and not routes.exists():
        yield f"--routes: {routes} does not exist: give a YAML file of routes"


def _is_module(name: str) -> bool:
    """Whether a module exists, on the path or in the working directory. A package that contains it is imported."""
    working_directory = str(Path.cwd())
    if working_directory not in sys.path:
        sys.path.append(working_directory)  # as `fairlead_gateway.custom.load` does
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:
        return False
    except Exception:  # noqa: BLE001  # errors of the package are reported when it is loaded
        return True
