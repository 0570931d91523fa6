"""Servers that fail on a laptop: the reason that `fairlead up` prints, and their complete output in `fairlead logs`."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path

from commands import fairlead
from controlplane import REPOSITORY
from forkserver import program_words
from neededprograms import needs
from npmmirror import registry_of_this_machine
from upprocess import Event, fairlead_up, in_state

INSTALL_SECONDS = 120.0
NPM = needs("npm")
NODE = needs("node")
PAGE = (REPOSITORY / "docs" / "operate" / "failed-servers.md").read_text()
COMMAND = PAGE.partition("```sh\nfairlead ")[2].partition("\n")[0].split()
TRACEBACK = "import json, sys\nprint('reading', file=sys.stderr)\njson.loads('')\n"
THROWS = "function start() { throw new Error('WEATHER_KEY is not set') }\nstart()\n"


def write_config(folder: Path, **servers: list[str]) -> Path:
    """An `mcp.json` of commands."""
    file = folder / "mcp.json"
    entries = {name: {"command": words[0], "args": words[1:]} for name, words in servers.items()}
    file.write_text(json.dumps({"mcpServers": entries}))
    return file


async def test_a_server_that_raises_fails_with_its_exception_and_its_traceback_is_in_the_log(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(TRACEBACK)
    file = write_config(tmp_path, weather=[sys.executable, str(tmp_path / "a.py")], absent=["no-such-program"])
    async with fairlead_up(file, cwd=tmp_path) as up:
        failed = await up.server("default/weather", "failed")
        reason = "json.decoder.JSONDecodeError: Expecting value: line 1 column 1 (char 0)"
        assert failed["message"].startswith(f"default/weather exited with code 1: {reason}.")
        assert "fairlead logs" in failed["message"]
        code, out, _ = await fairlead(*COMMAND, "--url", up.url)
        lines = out.splitlines()
        assert code == 0
        assert lines[0].startswith("--- run 1 started at ")
        printed = lines.index("reading")  # from the last run, because earlier runs printed the same
        assert lines[printed - 1].startswith("--- run ")
        assert lines[printed + 1] == "Traceback (most recent call last):"
        assert lines[printed + 2].startswith("  File "), "indented as it was"
        assert lines.count(reason) == 1
        code, out, error = await fairlead("logs", "absent", "--url", up.url)
        assert (code, out) == (0, "")
        assert "the gateway started no process of this server" in error
        code, _, error = await fairlead("logs", "waether", "--url", up.url)
        assert (code, "Did you mean weather?" in error) == (2, True)


async def test_a_folder_that_is_missing_is_the_reason_and_not_the_program(tmp_path: Path) -> None:
    (tmp_path / "run").write_text("#!/no/such/interpreter\n")
    (tmp_path / "run").chmod(0o755)
    file = tmp_path / "mcp.json"
    entries = {"moved": {"command": "python3", "cwd": "gone"}, "odd": {"command": str(tmp_path / "run")}}
    file.write_text(json.dumps({"mcpServers": entries}))
    async with fairlead_up(file, cwd=tmp_path) as up:
        failed, odd = await up.events_in_any_order(
            in_state("default/moved", "failed"), in_state("default/odd", "failed")
        )
        missing = f"cannot be started: its working directory (cwd) {tmp_path / 'gone'} does not exist."
        assert missing in failed["message"]
        assert "cwd and env" in failed["message"], "the remedy names it"
        _, log, _ = await fairlead("logs", "moved", "--url", up.url)
        assert "--- run 1 was not started: " in log
        assert f"{missing.removesuffix('.')} at " in log
        assert "the interpreter that its first line (#!) names does not exist" in odd["message"]


@NODE
async def test_a_server_on_nodejs_fails_with_its_error_and_not_with_the_version_of_nodejs(tmp_path: Path) -> None:
    (tmp_path / "a.js").write_text(THROWS)
    async with fairlead_up(write_config(tmp_path, broken=["node", str(tmp_path / "a.js")]), cwd=tmp_path) as up:
        failed = await up.server("default/broken", "failed")
        assert failed["message"].startswith("default/broken exited with code 1: Error: WEATHER_KEY is not set.")


async def test_following_a_log_goes_on_over_restarts_until_it_is_interrupted(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("import sys; sys.exit('no config')")
    async with fairlead_up(write_config(tmp_path, broken=[sys.executable, str(tmp_path / "a.py")]), cwd=tmp_path) as up:
        await up.server("default/broken", "failed")
        following = await asyncio.create_subprocess_exec(
            *program_words(),
            "logs",
            "broken",
            "-f",
            "--tail",
            "1",
            "--url",
            up.url,
            stdout=asyncio.subprocess.PIPE,
        )
        assert following.stdout is not None
        try:
            async with asyncio.timeout(60):
                runs: set[str] = set()
                while len(runs) < 3:
                    line = (await following.stdout.readline()).decode()
                    assert line, "it ended by itself"
                    if line.startswith("--- run "):
                        runs.add(line.split()[2])
        finally:
            following.kill()
            await following.wait()


async def test_the_log_of_a_server_whose_package_cannot_be_installed_is_what_the_installer_printed(
    tmp_path: Path,
) -> None:
    spec = {"package": {"registry": "pypi", "name": "no-such-package-of-fairlead", "version": "1.0"}}
    server = {"apiVersion": "fairlead.dev/v1alpha1", "kind": "McpServer", "metadata": {"name": "x"}, "spec": spec}
    (tmp_path / "a.yaml").write_text(json.dumps(server))
    env = {"UV_OFFLINE": "1", "XDG_CACHE_HOME": str(tmp_path / "cache")}
    async with fairlead_up(tmp_path / "a.yaml", cwd=tmp_path, env=env) as up:
        await up.server("default/x", "failed")
        code, out, _ = await fairlead("logs", "x", "--url", up.url)
        assert code == 0
        assert "no-such-package-of-fairlead was not found in the cache" in out
        assert "--- run 1 uv exited with code 1 at " in out


@NPM
async def test_npx_installs_a_package_without_asking_although_the_option_yes_is_off(tmp_path: Path) -> None:
    settings = tmp_path / "npmrc"
    settings.write_text(f"registry={registry_of_this_machine()}\nyes=false\n")
    env = {"npm_config_userconfig": str(settings), "npm_config_cache": str(tmp_path / "cache")}
    words = ["npx", "@modelcontextprotocol/server-memory@2026.8.31"]
    absent = ["npx", "@fairlead-nowhere/no-such-server"]
    async with fairlead_up(write_config(tmp_path, memory=words, absent=absent), cwd=tmp_path, env=env) as up:
        states: dict[str, Event] = {}
        while len(states) < 2:
            event = await up.event(lambda event: event.get("state") in ("ready", "failed"), within=INSTALL_SECONDS)
            states[event["server"]] = event
        assert states["default/memory"]["state"] == "ready", states
        message = states["default/absent"]["message"]
        assert "'@fairlead-nowhere/no-such-server@*' could not be found" in message
        assert "npm_config_yes" not in os.environ
