"""The command behind `hack/wheel`: builds wheels, compiled and pure, and checks them in fresh virtual environments."""

from __future__ import annotations

import argparse
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from contextlib import closing
from pathlib import Path
from typing import Final
from zipfile import ZipFile

ROOT: Final = Path(__file__).resolve().parents[1]
COMPILED_SAYS: Final = ", compiled"
"""Part of the output of `fairlead version` if the path is compiled."""
STARTS: Final = 120.0
"""Maximum seconds until a gateway answers, on a busy machine."""
TOOL: Final = '''from fairlead_gateway import tool


@tool
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b
'''
HEADERS: Final = {
    "Content-Type": "application/json",
    "Accept": "application/json, text/event-stream",
    "MCP-Protocol-Version": "2025-11-25",
}


class WheelFault(Exception):
    """A wheel is not as required; the message is one sentence."""


def build(into: Path, *, compiled: bool) -> Path:
    """Build a wheel in a folder. Raises WheelFault if the build fails; the build prints the reason."""
    variables = {name: value for name, value in os.environ.items() if not name.startswith("HATCH_")}
    if compiled:
        variables["HATCH_BUILD_HOOK_ENABLE_CUSTOM"] = "true"
    into.mkdir(parents=True, exist_ok=True)
    before = {file: file.stat().st_mtime_ns for file in into.glob("*.whl")}
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(into.resolve())]
    if subprocess.run(command, cwd=ROOT, env=variables, stdout=sys.stderr, check=False).returncode:
        raise WheelFault("the wheel does not build")
    return next(file for file in into.glob("*.whl") if before.get(file) != file.stat().st_mtime_ns)


def extensions(wheel: Path) -> list[str]:
    """Compiled files of a wheel."""
    with ZipFile(wheel) as archive:
        return [name for name in archive.namelist() if name.endswith(".so")]


def check_contents(wheel: Path, *, compiled: bool) -> None:
    """Raise WheelFault unless a compiled wheel contains extensions and names its platform, and a pure one does
    neither.
    """
    extension_files, anywhere = extensions(wheel), wheel.name.endswith("-py3-none-any.whl")
    if compiled is (not extension_files) or compiled is anywhere:
        raise WheelFault(
            f"{wheel.name} has {len(extension_files)} extensions, and should {'' if compiled else 'not '}be compiled"
        )


def check_installed(python: Path, wheel: Path, *, compiled: bool) -> None:
    """Install a wheel in a new environment, and call a tool through a gateway. Raises WheelFault."""
    install: list[str | Path] = [python, "-m", "pip", "install", "-q", "--force-reinstall"]
    words = [*install, f"{wheel}[gateway]"] if compiled else [*install, "--no-deps", wheel]
    if subprocess.run(words, stdout=sys.stderr, check=False).returncode:
        raise WheelFault(f"{wheel.name} does not install")
    fairlead = python.with_name("fairlead")
    done = subprocess.run([fairlead, "version"], capture_output=True, text=True, check=False, env=clean())
    if done.returncode or (COMPILED_SAYS in done.stdout) is not compiled:
        raise WheelFault(f"`fairlead version` of {wheel.name} says: {done.stdout}{done.stderr}")
    with tempfile.TemporaryDirectory() as name:
        answer = called_through(fairlead, Path(name))
    if '"text":"5"' not in answer or '"isError":true' in answer:
        raise WheelFault(f"a call through {wheel.name} is answered with {answer[:400]}")
    print(f"{wheel.name}: installed, {done.stdout.strip()}, calls tools")


def called_through(fairlead: Path, folder: Path) -> str:
    """Answer to a call of a custom tool. Raises WheelFault if the gateway does not answer."""
    (folder / "tools.py").write_text(TOOL)
    port, metrics = free_port(), free_port()
    words: list[str | Path] = [
        fairlead,
        "gateway",
        "--documents",
        folder,
        "--tools",
        folder / "tools.py",
        "--host",
        "127.0.0.1",
    ]
    words += ["--port", str(port), "--metrics-port", str(metrics)]
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "add", "arguments": {"a": 2, "b": 3}}}
    request = urllib.request.Request(f"http://127.0.0.1:{port}/mcp", json.dumps(call).encode(), HEADERS)
    gateway = subprocess.Popen(words, env=clean(), cwd=folder, stdout=sys.stderr)
    try:
        end = time.monotonic() + STARTS
        while gateway.poll() is None and time.monotonic() < end:
            try:
                with urllib.request.urlopen(request, timeout=20) as answer:
                    return str(answer.read().decode())
            except OSError:
                time.sleep(0.2)
        raise WheelFault("its gateway does not answer")
    finally:
        gateway.terminate()
        gateway.wait(30)


def clean() -> dict[str, str]:
    """Environment variables of this process without those that lead Python to the sources of this tree."""
    return {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}


def free_port() -> int:
    """A free TCP port."""
    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        return int(server.getsockname()[1])


def check() -> None:
    """Check both wheels, each in a new virtual environment. Raises WheelFault."""
    with tempfile.TemporaryDirectory(prefix="fairlead-wheel-") as name:
        folder = Path(name)
        subprocess.run([sys.executable, "-m", "venv", folder / "venv"], check=True)
        for compiled in (True, False):
            wheel = build(folder / ("compiled" if compiled else "pure"), compiled=compiled)
            check_contents(wheel, compiled=compiled)
            check_installed(folder / "venv" / "bin" / "python", wheel, compiled=compiled)


def main() -> int:
    """Return 0 if all checks succeeded, else print one sentence and return 1."""
    parser = argparse.ArgumentParser(prog="hack/wheel")
    parser.add_argument("--pure", action="store_true", help="nothing compiled, for every machine")
    parser.add_argument("--check", action="store_true", help="build both, install them and call a tool")
    options = parser.parse_args()
    try:
        if options.check:
            check()
        else:
            wheel = build(ROOT / "dist", compiled=not options.pure)
            check_contents(wheel, compiled=not options.pure)
            print(wheel)
    except WheelFault as error:
        print(f"hack/wheel: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
