"""Tells by the caches of npm and uv whether a package has been fetched already, in whatever process.

A guess, by which nothing but the order of starts is decided: what is taken for cached may still be renewed, and caches
that a configuration file moved count as empty. Of npm a folder of `_npx`, which is named by a digest of the packages
that were asked for (`libnpmexec`); of uv an environment with the package's program, cached or installed by
`uv tool install`.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Final

from fairlead_mcp.wrappers import Wrapper

MOST_ENVIRONMENTS: Final = 2000
"""Environments of uv that are looked at: a look takes about 10 µs."""


def is_cached(wrapped: Wrapper, environment: Mapping[str, str]) -> bool:
    """Whether the package that a wrapper would start needs no fetching, as far as can be seen. Reads folders."""
    try:
        return _npm_has(wrapped, environment) if wrapped.kind == "npx" else _uv_has(wrapped, environment)
    except (OSError, RuntimeError):  # a folder without permission; a machine without a home
        return False


def _npm_has(wrapped: Wrapper, environment: Mapping[str, str]) -> bool:
    digest = hashlib.sha512(wrapped.package.encode()).hexdigest()[:16]
    return (
        npm_cache(environment) / "_npx" / digest / "node_modules" / ".package-lock.json"
    ).is_file()  # written when all is there


def npm_cache(environment: Mapping[str, str]) -> Path:
    """npm's cache without its configuration files. Raises RuntimeError on a machine without a home."""
    named = npm_setting(environment, "npm_config_cache")
    return Path(named) if named else _home(environment) / ".npm"


def npm_setting(environment: Mapping[str, str], variable: str) -> str:
    """A setting of npm that a variable makes, whose name npm takes in any case; empty without it."""
    return next((value for name, value in environment.items() if name.lower() == variable and value), "")


def _uv_has(wrapped: Wrapper, environment: Mapping[str, str]) -> bool:
    home = _home(environment)
    tools = environment.get("UV_TOOL_DIR") or _below(environment, "XDG_DATA_HOME", home / ".local" / "share") / "tools"
    if os.access(Path(tools, wrapped.package, "bin", wrapped.program), os.X_OK):
        return True
    cache = Path(environment.get("UV_CACHE_DIR") or _below(environment, "XDG_CACHE_HOME", home / ".cache"))
    environments = islice(_environments(cache), MOST_ENVIRONMENTS)
    return any(os.access(folder / "bin" / wrapped.program, os.X_OK) for folder in environments)


def _environments(cache: Path) -> Iterator[Path]:
    """Environments in a cache of uv: by interpreter since 0.9, before that all in one folder."""
    for bucket in cache.glob("environments-v*"):
        for folder in bucket.iterdir():
            yield folder
            if folder.is_dir() and not folder.is_symlink():
                yield from folder.iterdir()


def _below(environment: Mapping[str, str], name: str, default: Path) -> Path:
    """Folder of uv below one of the XDG Base Directory Specification."""
    return Path(environment.get(name) or default) / "uv"


def _home(environment: Mapping[str, str]) -> Path:
    return Path(environment.get("HOME") or Path.home())
