"""Reasons in npm's debug log for an `npx` that ended without output or waits for the registry, with logs of npm 11."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from fairlead_mcp.npm_logs import MOST_BYTES, npm_failure, unreached_registry
from fairlead_mcp.stdio import ChildSpec
from fairlead_mcp.wrappers import wrapper

HEAD = """\
0 verbose cli /usr/bin/node /usr/lib/node_modules/npm/bin/npm-cli.js
6 verbose title npm exec {package}
7 verbose argv "exec" "--yes" "--" "{package}"
"""
SCRIPT = """\
777 info run browser@23.11.1 postinstall node_modules/browser node install.mjs
778 info run browser@23.11.1 postinstall { code: 1, signal: null }
779 verbose exit 1
"""


def write_log(folder: Path, name: str, text: str, package: str = "the-server", changed: float = 100.0) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    log = folder / f"{name}-debug-0.log"
    log.write_text(HEAD.format(package=package) + text)
    os.utime(log, (changed, changed))
    return log


def failure(home: Path, **environment: str) -> str:
    wrapped = wrapper(ChildSpec.of("npx", ("-y", "the-server"), {}, None))
    assert wrapped is not None
    return npm_failure(wrapped, {"HOME": str(home), **environment}, 50.0)


@pytest.mark.parametrize(
    ("folder", "environment"),
    [
        (".npm/_logs", {}),
        ("cache/_logs", {"NPM_CONFIG_CACHE": "{}/cache"}),
        ("logs", {"npm_config_logs_dir": "{}/logs"}),
    ],
)
def test_an_install_script_that_failed_is_named_with_the_log(
    tmp_path: Path, folder: str, environment: dict[str, str]
) -> None:
    log = write_log(tmp_path / folder, "a", SCRIPT)
    named = {name: value.format(tmp_path) for name, value in environment.items()}
    words = "npx printed nothing: the postinstall script of browser@23.11.1 failed with code 1. npm's log is "
    assert failure(tmp_path, **named) == f"{words}{log}"


def test_an_error_of_npm_is_quoted_from_its_log(tmp_path: Path) -> None:
    log = write_log(tmp_path / ".npm/_logs", "a", "20 error code E500\n21 error 500 Internal Server Error - GET x\n")
    assert failure(tmp_path) == f"npx printed nothing; error in npm's log {log}: 500 Internal Server Error - GET x"


def test_logs_of_other_packages_and_earlier_runs_and_scripts_that_succeeded_tell_nothing(tmp_path: Path) -> None:
    assert failure(tmp_path) == ""
    logs = tmp_path / ".npm/_logs"
    write_log(logs, "other", SCRIPT, package="the-server-two")
    write_log(logs, "earlier", SCRIPT, changed=49.0)
    write_log(logs, "fine", SCRIPT.replace("code: 1", "code: 0"))
    assert failure(tmp_path) == ""


def test_of_a_log_of_any_length_its_end_is_read(tmp_path: Path) -> None:
    write_log(tmp_path / ".npm/_logs", "a", SCRIPT + "x" * 99 + "\n" + "1 silly line\n" * (MOST_BYTES // 13 + 1))
    assert failure(tmp_path) == ""
    write_log(tmp_path / ".npm/_logs", "a", "1 silly line\n" * (MOST_BYTES // 13 + 1) + SCRIPT)
    assert "browser@23.11.1" in failure(tmp_path)


WAITING = """\
14 http fetch GET https://me:secret@packages.example.com/the-server attempt 1 failed with EAI_AGAIN
15 http fetch GET https://me:secret@packages.example.com/the-server attempt 2 failed with EAI_AGAIN
"""


def waits_for(home: Path, package: str = "the-server") -> str:
    wrapped = wrapper(ChildSpec.of("npx", ("-y", package), {}, None))
    assert wrapped is not None
    return unreached_registry(wrapped, {"HOME": str(home)}, 50.0)


def test_a_registry_that_npx_cannot_reach_is_named_with_the_way_to_start_from_the_cache(tmp_path: Path) -> None:
    write_log(tmp_path / ".npm/_logs", "a", WAITING)
    words = waits_for(tmp_path)
    assert words.startswith("npx cannot reach packages.example.com (EAI_AGAIN) and tries again")
    assert "npm_config_offline=true" in words
    assert "secret" not in words


def test_an_npx_waits_for_no_registry_that_has_answered_or_that_another_npx_asked(tmp_path: Path) -> None:
    logs = tmp_path / ".npm/_logs"
    assert waits_for(tmp_path) == ""
    write_log(logs, "other", WAITING, package="the-server-two")
    write_log(logs, "earlier", WAITING, changed=49.0)
    write_log(logs, "answered", WAITING + "16 http fetch GET 200 https://packages.example.com/the-server 90ms\n")
    assert waits_for(tmp_path) == ""
