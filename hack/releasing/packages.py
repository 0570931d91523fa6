"""Steps of a release that build and test the Python packages: sdist, wheels, an installation from the wheel alone."""

from __future__ import annotations

import json
import os
import shutil
import sys
import sysconfig
import tempfile
import urllib.request
from pathlib import Path
from typing import Any, Final
from zipfile import ZipFile

from releasing.artefacts import unwanted
from releasing.faults import Fault
from releasing.workplace import ROOT, Workplace, cached, environment, first_answer, install, running
from wheels import COMPILED_SAYS, HEADERS, STARTS, clean, extensions, free_port

PLATFORM: Final = "manylinux_2_17_x86_64" if os.uname().machine == "x86_64" else "manylinux_2_17_aarch64"
ALLOWED: Final = "W004,W009"
"""Accepted findings of check-wheel-contents: the compiled extension is outside of the packages."""
INITIALIZE: Final = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "release", "version": "1"},
    },
}


def wheels(workplace: Workplace) -> list[str]:
    """Build and check the sdist, the pure wheel and this interpreter's compiled wheel after its repair. Raises
    Fault.
    """
    dist, raw = workplace.folder("dist", empty=True), workplace.folder("raw", empty=True)
    python = environment(workplace, "image", "build")
    tools = environment(workplace, "release").parent
    build: list[str | Path] = [python, "-m", "hatchling", "build"]
    workplace.run(*build, "-t", "sdist", "-d", dist)
    workplace.run(*build, "-t", "wheel", "-d", dist)
    extension = str(compiled_path(workplace, python))
    workplace.run(*build, "-t", "wheel", "-d", raw, HATCH_BUILD_HOOK_ENABLE_CUSTOM="true", FAIRLEAD_COMPILED=extension)
    compiled = workplace.artefact("raw", "*.whl")
    if sys.platform == "linux":  # PyPI rejects the bare tag linux_x86_64, which does not name the C library
        path = f"{tools}{os.pathsep}{os.environ['PATH']}"
        workplace.run(tools / "auditwheel", "repair", "--plat", PLATFORM, "-w", dist, compiled, PATH=path)
    else:
        shutil.copy2(compiled, dist)
    made = sorted(dist.iterdir())
    workplace.run(tools / "twine", "check", "--strict", *made)
    for wheel in dist.glob("*.whl"):
        check_wheel(workplace, tools, wheel)
    return [f"{path.name}, {path.stat().st_size:,} bytes" for path in made]


def compiled_path(workplace: Workplace, python: Path) -> Path:
    """Folder with the compiled extensions. They are compiled again if sources or compiler packages have changed.

    Raises Fault if the compilation fails.
    """
    sources = sorted(path for name in ("crds", "operator", "gateway") for path in (ROOT / name).rglob("*.py"))
    made_of = [ROOT / "hack/compilation.py", ROOT / "requirements/image.txt", ROOT / "requirements/build.txt", *sources]
    folder = cached("extension", sys.version.encode(), *(path.read_bytes() for path in made_of))
    if not (folder / "whole").exists():
        shutil.rmtree(folder, ignore_errors=True)
        workplace.run(python, ROOT / "hack/compilation.py", "--into", folder / "files", cwd=ROOT / "gateway")
        (folder / "whole").touch()
    return folder / "files"


def check_wheel(workplace: Workplace, tools: Path, wheel: Path) -> None:
    """Raise Fault if a wheel contains unwanted files, or if it is compiled and its name says that it is pure."""
    workplace.run(tools / "check-wheel-contents", "--ignore", ALLOWED, wheel)
    with ZipFile(wheel) as archive:
        surplus = unwanted(archive.namelist())
    if surplus:
        raise Fault(f"{wheel.name} has {len(surplus)} files that no wheel needs, such as {surplus[0]}")
    if bool(extensions(wheel)) is wheel.name.endswith("-py3-none-any.whl"):
        raise Fault(f"{wheel.name} has {len(extensions(wheel))} extensions, which its name does not say")


def compiled_wheel(workplace: Workplace) -> Path:
    """The repaired wheel of this interpreter from the step `wheels`. Raises Fault."""
    return workplace.artefact("dist", f"*-cp{sysconfig.get_config_var('py_version_nodot')}-*.whl")


def installation(workplace: Workplace) -> list[str]:
    """Install the compiled wheel in a new environment, and check that `up` answers there and by uvx. Raises Fault."""
    wheel = compiled_wheel(workplace)
    folder = workplace.folder("venv", empty=True)
    workplace.run(sys.executable, "-m", "venv", folder)
    python = folder / "bin" / "python"
    install(workplace, python, "-r", ROOT / "requirements" / "up.txt")
    workplace.run(python, "-m", "pip", "install", "-q", "--no-deps", "--no-index", wheel)
    workplace.run(python, "-m", "pip", "check")
    version_line = workplace.run(folder / "bin" / "fairlead", "version", cwd=folder, PYTHONPATH="").strip()
    if COMPILED_SAYS not in version_line:
        raise Fault(f"`fairlead version` of {wheel.name} says {version_line}: the wheel is not compiled")
    server = answered(workplace, [folder / "bin" / "fairlead"])
    uvx = environment(workplace, "release").parent / "uvx"
    alone: list[str | Path] = [uvx, "--python", sys.executable, "--constraints", ROOT / "requirements" / "up.txt"]
    alone += ["--from", f"fairlead[up] @ {wheel.as_uri()}", "fairlead"]
    answered(workplace, alone)
    return [version_line, f"`fairlead up` answers initialize as {server}, installed by pip and run by uvx"]


def answered(workplace: Workplace, fairlead: list[str | Path]) -> str:
    """Name and version in the answer of `fairlead up` to `initialize`. Raises Fault."""
    port = free_port()
    log = workplace.folder("log") / "up.log"
    words = [*fairlead, "up", "--plain", "--port", str(port), "--metrics-port", str(free_port())]
    with tempfile.TemporaryDirectory() as home, running(words, log, **_apart(Path(home))) as process:
        result = first_answer(process, lambda: initialize(f"http://127.0.0.1:{port}/mcp"), STARTS)
        if result is not None:
            server: dict[str, str] = result["result"]["serverInfo"]
            return f"{server['name']} {server['version']}"
    raise Fault(f"`fairlead up` did not answer `initialize` within {STARTS:.0f} s: {log} says why")


def _apart(home: Path) -> dict[str, str]:
    """Environment variables of a process that must not find the sources of this tree, nor files of other runs."""
    return {**clean(), "PYTHONPATH": "", "FAIRLEAD_STATE_DIR": str(home / "state")}


def initialize(url: str) -> dict[str, Any]:
    """Send `initialize` and return the answer, which may be JSON or an event stream. Raises OSError, Fault."""
    request = urllib.request.Request(url, json.dumps(INITIALIZE).encode(), HEADERS)
    with urllib.request.urlopen(request, timeout=20) as answer:
        text = answer.read().decode()
    line = next((line for line in text.splitlines() if line.startswith("data:")), text)
    message: dict[str, Any] = json.loads(line.removeprefix("data:"))
    if "result" not in message:
        raise Fault(f"`initialize` is answered with {text[:300]}")
    return message
