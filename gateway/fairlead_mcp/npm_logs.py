"""Finds in npm's debug log why an `npx` failed that printed nothing, and what a running one waits for.

`npm exec` prints nothing about an install script that fails, nor about a registry that it cannot reach. npm writes a
log of each run into `logs-dir`, by default `_logs` in its cache, and keeps the last
ten (npm documentation, logging) unless `logs-max` says otherwise.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from fairlead_mcp.package_caches import npm_cache, npm_setting
from fairlead_mcp.stdio import NPM_LOGS
from fairlead_mcp.wrappers import Wrapper

MOST_BYTES: Final = 4 << 20
"""Bytes to read from the end of a log."""
_HEAD_BYTES: Final = 4096
"""Bytes to read from the beginning of a log, which has the command."""
_SCRIPT_FAILURE: Final = re.compile(
    r"^\d+ info run (?P<package>\S+) (?P<script>\w+) (?:\S+ )?\{ code: (?P<code>[1-9]\d*), signal: ", re.MULTILINE
)
_ERROR: Final = re.compile(r"^\d+ error (?!code |path |command |signal )(?P<text>\S.*)$", re.MULTILINE)
_REQUEST: Final = re.compile(r"^\d+ http (?:fetch|cache) .*$", re.MULTILINE)
_FAILED_FETCH: Final = re.compile(r"^\d+ http fetch GET (?P<url>\S+) attempt \d+ failed with (?P<code>\w+)$")
"""Line about a request without a response. npm repeats it, by default after 10 and 60 s."""


def npm_failure(wrapped: Wrapper, environment: Mapping[str, str], began: float) -> str:
    """Explain the failure of an `npx` that was started at `began` (Unix time in seconds), with the path of its log.

    Empty if no log has the reason. Blocks, as it reads files.
    """
    for log in _logs(environment, began):
        try:
            text = _read(log, wrapped.package)
        except OSError:
            continue
        failure = _SCRIPT_FAILURE.search(text)
        if failure is not None:
            script = f"the {failure['script']} script of {failure['package']} failed with code {failure['code']}"
            return f"npx printed nothing: {script}. npm's log is {log}"
        if error := _ERROR.search(text):
            return f"npx printed nothing; error in npm's log {log}: {error['text']}"
    return ""


def unreached_registry(wrapped: Wrapper, environment: Mapping[str, str], began: float) -> str:
    """Explain what an `npx` that was started at `began` (Unix time in seconds) waits for, if its last request did not
    reach the registry; else empty. Blocks, as it reads files.
    """
    for log in _logs(environment, began):
        try:
            requests = _REQUEST.findall(_read(log, wrapped.package))
        except OSError:
            continue
        if requests and (fetch := _FAILED_FETCH.match(requests[-1])):
            host = urlsplit(fetch["url"]).hostname
            return (
                f"npx cannot reach {host} ({fetch['code']}) and tries again for more than a minute; if the package "
                "is in npm's cache, npm_config_offline=true in env starts it without the network"
            )
    return ""


def _logs(environment: Mapping[str, str], began: float) -> list[Path]:
    """Return the logs written since `began`, newest first."""
    setting = npm_setting(environment, "npm_config_logs_dir")
    folder = Path(setting) if setting else npm_cache(environment) / "_logs"
    logs: list[tuple[float, Path]] = []
    try:
        for entry in os.scandir(folder):
            if entry.name.endswith("-debug-0.log") and entry.stat().st_mtime >= began:
                logs.append((entry.stat().st_mtime, Path(entry.path)))
    except (OSError, RuntimeError):
        return []
    return [path for _, path in sorted(logs, reverse=True)[:NPM_LOGS]]


def _read(log: Path, package: str) -> str:
    """Read the end of a log, if its command names `package`; else return an empty string."""
    with log.open("rb") as file:
        head = file.read(_HEAD_BYTES).decode("utf-8", "replace")
        title = next((line for line in head.splitlines() if " verbose argv " in line), "")
        if f'"{package}"' not in title:
            return ""
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - MOST_BYTES))
        return file.read().decode("utf-8", "replace")
