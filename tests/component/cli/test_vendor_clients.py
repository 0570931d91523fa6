"""Files that `fairlead client setup` writes: the vendors' command lines read them and connect."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from fairlead_cli.clients.options import SetupOptions
from fairlead_cli.clients.setup import run_setup
from fairlead_cli.output import Output
from gatewayworld import catalog, running
from neededprograms import require_program
from toolservers import modern_server, tool

PACKAGES = {
    "claude-code": ("@anthropic-ai/claude-code@2.1.331", ("claude", "mcp", "get", "fairlead"), "Connected"),
    "gemini-cli": ("@google/gemini-cli@0.61.0", ("gemini", "mcp", "list"), "fairlead: {url} (http)"),
    "opencode": ("opencode-ai@1.18.33", ("opencode", "mcp", "list"), "fairlead"),
    "codex": ("@openai/codex@0.169.0", ("codex", "mcp", "get", "fairlead"), "url: {url}"),
}
QUIET = {"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "DISABLE_TELEMETRY": "1", "NO_COLOR": "1"}


async def _run(words: tuple[str, ...], folder: Path, **environment: str) -> str:
    process = await asyncio.create_subprocess_exec(
        *words,
        cwd=folder,
        env={**os.environ, **environment},
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    out, _ = await process.communicate()
    return out.decode()


async def _install(client: str) -> Path:
    """Folder of the client's programs, installed once for all runs."""
    npm = require_program("npm", "it brings the vendors' clients")
    package = PACKAGES[client][0]
    folder = Path.home() / ".cache/fairlead/clients" / package.replace("/", "-")
    if not (folder / "node_modules/.bin").is_dir():
        folder.mkdir(parents=True, exist_ok=True)
        told = await _run((npm, "install", "--prefix", str(folder), "--no-fund", "--no-audit", package), folder)
        if not (folder / "node_modules/.bin").is_dir():
            pytest.skip(f"{package} cannot be installed here: {told[-300:]}")
    return folder / "node_modules/.bin"


@pytest.mark.network
@pytest.mark.parametrize("client", PACKAGES)
async def test_a_vendors_client_reads_the_configuration(
    client: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    programs = await _install(client)
    home = tmp_path / "home"
    home.mkdir()
    async with modern_server([tool("rope")]) as server, running(tmp_path, catalog("demo", server.url)) as gateway:
        url = f"http://127.0.0.1:{gateway.port}/mcp"
        with monkeypatch.context() as patched:
            patched.setenv("HOME", str(home))
            run_setup(client, SetupOptions(url, yes=True), Output.table)
        _, words, expected = PACKAGES[client]
        path = f"{programs}:{os.environ['PATH']}"
        told = await _run((str(programs / words[0]), *words[1:]), home, HOME=str(home), PATH=path, **QUIET)
    assert expected.format(url=url) in told
