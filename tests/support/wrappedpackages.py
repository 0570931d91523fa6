"""A package of npm and one of PyPI, both called `reporter`, whose program reports how it was started. They need no
network.

`reporter report` prints its arguments, folder and environment; `stay` does so and ends with its input, code 5;
`exit N` and `signal N` end at once.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import os
import zipfile
from pathlib import Path
from typing import Any, Final, NamedTuple

from fairlead_mcp.errors import McpError
from fairlead_mcp.stdio import ChildSpec, Launcher, Process

NAME: Final = "reporter"
JAVASCRIPT: Final = """\
#!/usr/bin/env node
const [what, number] = process.argv.slice(2);
console.error("on its way");
if (what === "exit") process.exit(Number(number));
if (what === "signal") process.kill(process.pid, Number(number));
console.log(JSON.stringify({args: process.argv.slice(2), cwd: process.cwd(), env: process.env, pid: process.pid}));
if (what === "stay") process.stdin.on("end", () => process.exit(5)).resume();
if (what === "signal") setTimeout(() => {}, 600000);
"""
_PYTHON: Final = """\
import json, os, sys

def main():
    what = sys.argv[1]
    print("on its way", file=sys.stderr, flush=True)
    if what == "exit":
        sys.exit(int(sys.argv[2]))
    if what == "signal":
        os.kill(os.getpid(), int(sys.argv[2]))
    told = {"args": sys.argv[1:], "cwd": os.getcwd(), "env": dict(os.environ), "pid": os.getpid()}
    print(json.dumps(told), flush=True)
    if what == "stay":
        sys.stdin.read()
        sys.exit(5)
"""


def npm_project(folder: Path) -> Path:
    """Install the package into a project in `folder`, as `npm install` does. Returns the package's program."""
    package = folder / "node_modules" / NAME
    package.mkdir(parents=True)
    manifest = {"name": NAME, "version": "1.0.0", "bin": {NAME: "program.js"}}
    (package / "package.json").write_text(json.dumps(manifest))
    (folder / "package.json").write_text(json.dumps({"name": "project", "dependencies": {NAME: "1.0.0"}}))
    program = package / "program.js"
    program.write_text(JAVASCRIPT)
    program.chmod(0o755)
    (folder / "node_modules" / ".bin").mkdir()
    (folder / "node_modules" / ".bin" / NAME).symlink_to(f"../{NAME}/program.js")
    return program


def wheels(folder: Path, *versions: str) -> None:
    """Put wheels of the package into `folder`, to be found there by `UV_FIND_LINKS`."""
    folder.mkdir(exist_ok=True)
    for version in versions:
        info = f"{NAME}-{version}.dist-info"
        files = {
            f"{NAME}.py": _PYTHON,
            f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {NAME}\nVersion: {version}\n",
            f"{info}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
            f"{info}/entry_points.txt": f"[console_scripts]\n{NAME} = {NAME}:main\n",
        }
        record = "".join(f"{name},sha256={_digest(text)},{len(text)}\n" for name, text in files.items())
        with zipfile.ZipFile(folder / f"{NAME}-{version}-py3-none-any.whl", "w") as wheel:
            for name, text in {**files, f"{info}/RECORD": f"{record}{info}/RECORD,,\n"}.items():
                wheel.writestr(name, text)


def _digest(text: str) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()


class Heard:
    """Observer that stores the output of a process."""

    def __init__(self) -> None:
        self.lines: asyncio.Queue[bytes] = asyncio.Queue()
        self.log: list[str] = []
        self.steps: list[str] = []
        self.ended: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    def on_line(self, line: bytes) -> None:
        self.lines.put_nowait(line)

    def on_stderr(self, line: str) -> None:
        self.log.append(line)

    def on_step(self, step: str) -> None:
        self.steps.append(step)

    def on_fault(self, error: McpError) -> None:
        raise AssertionError(str(error))

    def on_exit(self, ending: str) -> None:
        self.ended.set_result(ending)


class Run(NamedTuple):
    """A process that has ended."""

    how: str
    reports: list[dict[str, Any]]
    log: list[str]


async def run(launcher: Launcher, spec: ChildSpec) -> Run:
    """Launch a process, and wait for its end."""
    heard = Heard()
    process = await launcher.launch(spec, heard)
    async with asyncio.timeout(50):
        how = await heard.ended
    await process.stop(1.0)
    messages = [json.loads(heard.lines.get_nowait()) for _ in range(heard.lines.qsize())]
    return Run(
        how, [{name: value for name, value in message.items() if name != "pid"} for message in messages], heard.log
    )


async def launch_reporter(launcher: Launcher, spec: ChildSpec) -> tuple[Process, dict[str, Any], Heard]:
    """Launch `reporter stay`. Returns the process, the program's report, and its output."""
    heard = Heard()
    process = await launcher.launch(spec, heard)
    async with asyncio.timeout(50):
        message = json.loads(await heard.lines.get())
    return process, message, heard


def without_network(folder: Path) -> dict[str, str]:
    """Environment variables with which `npx` and `uvx` have no network, and store their files in `folder`."""
    return {
        "HOME": str(folder / "home"),
        "npm_config_offline": "true",
        "npm_config_update_notifier": "false",
        "npm_config_cache": str(folder / "npm"),
        "UV_OFFLINE": "1",
        "UV_NO_CONFIG": "1",
        "UV_FIND_LINKS": str(folder / "wheels"),
        "UV_CACHE_DIR": str(folder / "uv"),
        "UV_TOOL_DIR": str(folder / "tools"),
        "UV_PYTHON_DOWNLOADS": "never",
        "PATH": os.environ["PATH"],
    }
