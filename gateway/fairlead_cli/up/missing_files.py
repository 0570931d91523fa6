"""Files and modules that the command line of `fairlead up` names and this machine does not have."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path


def missing(paths: Iterable[Path], tools: Iterable[str] = (), routes: Path | None = None) -> Iterator[str]:
    """A sentence for each place that is not there; one of `tools` is a file or a module."""
    for path in paths:
        if not path.exists():
            yield f"there is no file or folder {path}: an mcp.json, a manifest or a folder of them goes here"
        elif path.suffix == ".py" and path.is_file():
            yield f"{path} is a Python file: --tools {path} serves the tools in it"
    for tool_path in tools:
        if tool_path.endswith(".py") or "/" in tool_path:
            if not Path(tool_path).exists():
                yield f"there is no file {tool_path}: a Python file or the name of a module goes after --tools"
        elif not _is_module(name := tool_path.partition(":")[0]):
            yield f"there is no module {name}: a Python file or the name of a module goes after --tools"
    if routes is not None and not routes.exists():
        yield f"there is no file {routes}: a YAML file of routes goes after --routes"


def _is_module(name: str) -> bool:
    """Whether a module can be found, also one below the working directory; a package around it is imported."""
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.append(here)  # as `fairlead_gateway.custom.load` does
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:
        return False
    except Exception:  # noqa: BLE001  # the package around it is an author's code, and told of when it is loaded
        return True
