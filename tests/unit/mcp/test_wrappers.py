"""Detection of wrapper commands whose program can be started without the wrapper."""

from __future__ import annotations

import json

import pytest

from fairlead_mcp.stdio import ChildSpec
from fairlead_mcp.wrappers import Wrapper, is_npm, is_uv, start, wrapper


def of(words: str, **env: str) -> Wrapper | None:
    command, *args = words.split()
    return wrapper(ChildSpec.of(command, args, env))


@pytest.mark.parametrize(
    ("words", "probed"),
    [
        ("npx -y server", "npx -y server"),
        ("npx server --port 1", "npx server --port 1"),
        ("/usr/bin/npx --yes @scope/server@latest -p 1", "/usr/bin/npx --yes @scope/server@latest -p 1"),
        ("npx -y server@^1.2", "npx -y server@^1.2"),
        (
            "npx -q -y --package=@scope/server@1.2.3 -- program -y",
            "npx -q -y --package=@scope/server@1.2.3 -- program -y",
        ),
        ("npx -p server program", "npx -p server program"),
        ("uvx server", "uvx --from server SCRIPT"),
        ("uvx server@latest --utc", "uvx --from server@latest SCRIPT"),
        ("uvx server==1.2.3", "uvx --from server==1.2.3 SCRIPT"),
        ("uvx server[web,db]>=1.2,<2", "uvx --from server[web,db]>=1.2,<2 SCRIPT"),
        ("uvx --from Server==1.2 the_program -q", "uvx --from Server==1.2 SCRIPT"),
        ("/opt/bin/uv tool run -q --from=server program", "/opt/bin/uv tool run -q --from=server SCRIPT"),
    ],
)
def test_a_simple_command_is_asked_for_its_program(words: str, probed: str) -> None:
    wrapper = of(words)
    assert wrapper is not None
    assert " ".join(wrapper.probe("SCRIPT")) == probed


@pytest.mark.parametrize(
    "words",
    [
        "node server.js",
        "npx",
        "npx -y",
        "npx -c server",
        "npx --call=server",
        "npx -p one -p two program",
        "npx -y -w workspace server",
        "npx --no-install server",
        "npx -y github:owner/server",
        "npx -y owner/server",
        "npx -y https://example.com/server.tgz",
        "npx -y git+ssh://git@example.com/server.git",
        "npx -y ./server",
        "npx -y ../server",
        "npx -y server@npm:other",
        "npx -y server@file:../server",
        "npx -y /srv/server",
        "npx -p server ./program",
        "uvx",
        "uvx --with more server",
        "uvx --python 3.12 server",
        "uvx --from git+https://example.com/server program",
        "uvx --from ./server program",
        "uvx --from server@https://example.com/server.whl program",
        "uvx --from server ./program",
        "uvx --from server python",
        "uvx ./server",
        "uvx python",
        "uvx python3.12",
        "uvx pypy@3.10",
        "uvx My_Server",
        "uvx --isolated server",
        "uv run server",
        "uv tool install server",
        "npm exec server",
        "bunx server",
    ],
)
def test_an_unusual_command_keeps_its_wrapper(words: str) -> None:
    assert of(words) is None


def test_a_server_can_be_told_to_keep_its_wrapper() -> None:
    assert of("npx -y server", FAIRLEAD_KEEP_WRAPPER="true") is None
    assert of("uvx server", FAIRLEAD_KEEP_WRAPPER="true") is None
    assert of("uvx server", FAIRLEAD_KEEP_WRAPPER="") is not None


def test_a_shell_of_the_users_own_keeps_npx() -> None:
    assert of("npx -y server", NPM_CONFIG_SCRIPT_SHELL="/bin/bash") is None
    assert of("uvx server", NPM_CONFIG_SCRIPT_SHELL="/bin/bash") is not None


@pytest.mark.parametrize(
    ("manifest", "trusted"),
    [
        ({"name": "npm", "version": "11.19.1"}, True),
        ({"name": "npm", "version": "9.2.0"}, True),
        ({"name": "npm", "version": "8.19.4"}, False),
        ({"name": "npx", "version": "10.2.2"}, False),
        ({"name": "npm"}, False),
        ({"name": "npm", "version": "new"}, False),
        ([], False),
    ],
)
def test_only_a_known_npm_is_trusted(manifest: object, trusted: bool) -> None:
    assert is_npm(json.dumps(manifest).encode()) is trusted


@pytest.mark.parametrize(
    ("version", "trusted"),
    [
        ("uvx 0.13.9 (x86_64-unknown-linux-gnu)", True),
        ("uv 1.0.0", True),
        ("uv-tool-uvx 0.6.17", True),
        ("uv-tool-uvx 0.5.0", False),
        ("2.4.1", False),
        ("", False),
    ],
)
def test_only_a_known_uv_is_trusted(version: str, trusted: bool) -> None:
    assert is_uv(version) is trusted


@pytest.mark.parametrize(
    "answer", ["", "7", "[1]", '[["-c","a","b"],"/",{}]', '[["server"],"/",{}]', "[[[", '{"a":1,"b":2,"c":3}']
)
def test_commands_that_npx_was_not_expected_to_run_are_not_started(answer: str) -> None:
    wrapper = of("npx -y server")
    assert wrapper is not None
    assert start(wrapper, answer) is None
