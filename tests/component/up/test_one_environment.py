"""Servers of an mcp.json get the same environment from `fairlead up` and from a tool registry."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

from toolservers import LEGACY_STDIO
from upprocess import fairlead_up

SERVER = """#!{python}
import json, os, runpy, sys
with open(sys.argv[1], "w") as file:
    json.dump({{"env": dict(os.environ), "cwd": os.getcwd()}}, file)
sys.argv[1:] = []
runpy.run_path({server!r}, run_name="__main__")
"""
REGISTRY = """
import json
from fairlead_client import ToolRegistry
with ToolRegistry(json.load(open("mcp.json"))) as registry:
    assert len(registry.tools) == 12, registry.tools
"""
NETWORK = {
    "SSL_CERT_FILE": "/etc/own.pem",
    "SSL_CERT_DIR": "/etc/own",
    "REQUESTS_CA_BUNDLE": "/etc/own.pem",
    "CURL_CA_BUNDLE": "/etc/own.pem",
    "NODE_EXTRA_CA_CERTS": "/etc/own.pem",
    "NODE_USE_SYSTEM_CA": "1",
    "HTTPS_PROXY": "http://127.0.0.1:1",
    "https_proxy": "http://127.0.0.1:1",
    "NO_PROXY": "127.0.0.1",
    "no_proxy": "127.0.0.1",
}
SETTINGS = {"DOCKER_HOST": "unix:///run/own.sock"}
SECRETS = {"GITHUB_TOKEN": "t0p", "AWS_SECRET_ACCESS_KEY": "k3y", "npm_config_registry": "http://127.0.0.1:1"}
OURS = {**NETWORK, **SETTINGS, **SECRETS, "GIVEN": "g1ven", "TZ": "UTC", "LANG": "C.UTF-8"}


def read_seen(folder: Path) -> dict[str, Any]:
    return {file.name: json.loads(file.read_text()) for file in sorted(folder.glob("*.seen"))}


async def test_a_server_has_one_environment_in_up_and_in_a_tool_registry(tmp_path: Path) -> None:
    program = tmp_path / "programs" / "docker"
    program.parent.mkdir()
    program.write_text(SERVER.format(python=sys.executable, server=LEGACY_STDIO))
    program.chmod(0o755)
    servers = {
        "plain": {
            "command": sys.executable,
            "args": [str(program), str(tmp_path / "plain.seen")],
            "env": {"OWN": "${GIVEN}", "SSL_CERT_FILE": "${env:OTHER:-/etc/other.pem}"},
        },
        "fetched": {"command": "./docker", "args": [str(tmp_path / "fetched.seen")], "cwd": "programs"},
    }
    (tmp_path / "mcp.json").write_text(json.dumps({"mcpServers": servers}))

    async with fairlead_up("mcp.json", cwd=tmp_path, env=OURS) as up:
        assert await up.states(2) == {"default/plain": "ready:", "default/fetched": "ready:"}
    by_up = read_seen(tmp_path)
    for name in by_up:
        (tmp_path / name).unlink()
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", REGISTRY, cwd=tmp_path, env={**os.environ, **OURS}
    )
    assert await process.wait() == 0

    assert read_seen(tmp_path) == by_up
    plain = by_up["plain.seen"]["env"]
    fetched = by_up["fetched.seen"]["env"]
    assert plain.items() >= {**NETWORK, "OWN": "g1ven", "SSL_CERT_FILE": "/etc/other.pem"}.items()
    assert plain.items() >= {"TZ": "UTC", "LANG": "C.UTF-8", "PATH": os.environ["PATH"]}.items()
    assert fetched.items() >= {**NETWORK, **SETTINGS}.items()
    assert not (SECRETS | SETTINGS).keys() & plain.keys()
    assert not SECRETS.keys() & fetched.keys()
    assert by_up["fetched.seen"]["cwd"] == str(program.parent)
