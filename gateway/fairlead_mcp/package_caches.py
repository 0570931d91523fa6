"""Guesses by the cache folders of npm and uv whether a package has been fetched before.

The guess affects only the order of starts and messages about them: a cached package may still be fetched again, and a
cache whose folder is set in a configuration file counts as empty. For npm, this module reads the `node_modules` of the
project and of the machine, and the folders of `_npx`, each named by a digest of the requested packages (`libnpmexec`).
For uv, it reads environments with the package's program, cached or installed by `uv tool install`, and unpacked wheels.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Final

from fairlead_mcp.wrappers import Wrapper

MOST_ENVIRONMENTS: Final = 2000
"""Limit for the environments of uv that are checked, at about 10 µs each."""


def is_cached(wrapped: Wrapper, environment: Mapping[str, str], cwd: str | None = None) -> bool:
    """Whether the package that a wrapper would start in `cwd` is probably cached. Blocks, as it reads folders."""
    try:
        return _npm_has(wrapped, environment, cwd) if wrapped.kind == "npx" else _uv_has(wrapped, environment)
    except (OSError, RuntimeError):  # a folder that may not be read; no home directory
        return False


def _npm_has(wrapped: Wrapper, environment: Mapping[str, str], cwd: str | None) -> bool:
    folder = Path(cwd or os.curdir).absolute()
    if any(_has_version(folder / "node_modules", wrapped.package) for folder in (folder, *folder.parents)):
        return True
    if _has_version(_npm_prefix(environment) / "lib" / "node_modules", wrapped.package):
        return True
    digest = hashlib.sha512(wrapped.package.encode()).hexdigest()[:16]
    npx_folder = npm_cache(environment) / "_npx"
    if (npx_folder / digest / "node_modules" / ".package-lock.json").is_file():  # npm writes the lock file last
        return True
    return any(
        (modules / ".package-lock.json").is_file() and _has_version(modules, wrapped.package)
        for modules in islice(npx_folder.glob("*/node_modules"), MOST_ENVIRONMENTS)
    )


def _has_version(modules: Path, package: str) -> bool:
    """Whether a `node_modules` has a package in the requested version; any version matches a range or tag."""
    at = package.rfind("@")
    name, version = (package[:at], package[at + 1 :]) if at > 0 else (package, "")
    manifest = modules / name / "package.json"
    if not (version and version[0].isdecimal()):
        return manifest.is_file()
    try:
        content = json.loads(manifest.read_bytes())
    except (FileNotFoundError, ValueError):
        return False
    return isinstance(content, dict) and content.get("version") == version


def _npm_prefix(environment: Mapping[str, str]) -> Path:
    """Return npm's prefix, the folder of global packages: the one that the environment sets, else the one that Node.js
    is in.
    """
    setting = npm_setting(environment, "npm_config_prefix")
    if setting:
        return Path(setting)
    node = shutil.which("node", path=environment.get("PATH"))
    return Path(node).resolve().parent.parent if node else Path(os.devnull)


def npm_cache(environment: Mapping[str, str]) -> Path:
    """Return the folder of npm's cache, without reading npm's configuration files. Raises RuntimeError without a home
    directory.
    """
    setting = npm_setting(environment, "npm_config_cache")
    return Path(setting) if setting else _home(environment) / ".npm"


def npm_setting(environment: Mapping[str, str], variable: str) -> str:
    """Return npm's setting from an environment variable, whose name may be in any case; empty without one."""
    return next((value for name, value in environment.items() if name.lower() == variable and value), "")


def _uv_has(wrapped: Wrapper, environment: Mapping[str, str]) -> bool:
    home = _home(environment)
    tools = (
        environment.get("UV_TOOL_DIR") or _uv_folder(environment, "XDG_DATA_HOME", home / ".local" / "share") / "tools"
    )
    if os.access(Path(tools, wrapped.package, "bin", wrapped.program), os.X_OK):
        return True
    cache = Path(environment.get("UV_CACHE_DIR") or _uv_folder(environment, "XDG_CACHE_HOME", home / ".cache"))
    environments = islice(_environments(cache), MOST_ENVIRONMENTS)
    return any(os.access(folder / "bin" / wrapped.program, os.X_OK) for folder in environments) or any(
        wheel.is_dir() for wheel in cache.glob(_wheels_of(wrapped.package))
    )


def _wheels_of(package: str) -> str:
    """Make the glob pattern of a requested package's unpacked wheels, with the version if the request has one."""
    name, _, rest = package.partition("==" if "==" in package else "@")
    base_name = re.split(r"[\[<>!=~@ ]", name, maxsplit=1)[0]
    version = f"{rest.strip()}-" if rest[:1].isdecimal() else ""
    return f"wheels-v*/*/{re.sub(r'[-_.]+', '-', base_name).lower()}/{version}*"


def _environments(cache: Path) -> Iterator[Path]:
    """Yield the environments in uv's cache: since uv 0.9 in a folder per interpreter, before that in one folder."""
    for bucket in cache.glob("environments-v*"):
        for folder in bucket.iterdir():
            yield folder
            if folder.is_dir() and not folder.is_symlink():
                yield from folder.iterdir()


def _uv_folder(environment: Mapping[str, str], name: str, default: Path) -> Path:
    """Return uv's folder below a base directory of the XDG Base Directory Specification."""
    return Path(environment.get(name) or default) / "uv"


def _home(environment: Mapping[str, str]) -> Path:
    return Path(environment.get("HOME") or Path.home())
