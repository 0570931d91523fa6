"""Clients of models that frameworks bring: programs of `framework_clients`, in environments of their own."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import pytest

PROGRAMS: Final = Path(__file__).parent / "framework_clients"
PACKAGES: Final = {
    "livekit": ("livekit-agents==1.8.9", "livekit-plugins-openai==1.8.9", "livekit-plugins-google==1.8.9"),
    "pipecat": ("pipecat-ai[google,openai]==1.14.0",),
}
"""Packages of PyPI by the framework of speech."""
_OF_TEXT: Final = {"langchain_google": ("langchain-google-genai==4.4.3",)}
_OF_NODE: Final = {"vercel_ai": ("ai@6.0.326", "@ai-sdk/openai@3.0.141", "zod@4.6.7")}
"""Packages of npm by the framework of text."""
_CACHE: Final = Path.home() / ".cache/fairlead/clients"


async def _run(
    *words: str | Path, cwd: Path | None = None, environment: Mapping[str, str] | None = None
) -> tuple[int, str, str]:
    """Exit code, standard output and standard error."""
    process = await asyncio.create_subprocess_exec(
        *map(str, words),
        cwd=cwd,
        env={**os.environ, **(environment or {})},
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        out, err = await process.communicate()
    finally:
        if process.returncode is None:  # of a test that was given up
            process.kill()
            await process.communicate()
    return process.returncode or 0, out.decode(), err.decode()


async def _python(framework: str) -> Path:
    """Interpreter of the framework's environment, which is made once for all runs."""
    packages = {**PACKAGES, **_OF_TEXT}[framework]
    version = packages[0].partition("==")[2]
    folder = _CACHE / f"{framework}-{version}-python{sys.version_info[1]}"
    python = folder / "bin" / "python"
    if not (folder / "whole").exists():  # not there, or of a run that was cut off
        uv = Path(sys.executable).parent / "uv"
        make: list[str | Path] = [uv, "venv", "-q", "--clear", "--python", sys.executable, folder]
        install: list[str | Path] = [uv, "pip", "install", "-q", "--python", python, *packages]
        if not uv.exists():
            make = [sys.executable, "-m", "venv", "--clear", folder]
            install = [python, "-m", "pip", "install", "-q", "--disable-pip-version-check", *packages]
        for words in (make, install):
            code, out, err = await _run(*words)
            if code:
                pytest.skip(f"{packages[0]} cannot be installed here: {(out + err)[-300:]}")
        (folder / "whole").touch()
    return python


async def _node_modules(framework: str) -> Path:
    """Folder with the framework's packages of npm, which is made once for all runs."""
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip("npm is not installed")
    packages = _OF_NODE[framework]
    folder = _CACHE / f"{framework}-{packages[0].rpartition('@')[2]}"
    if not (folder / "whole").exists():
        folder.mkdir(parents=True, exist_ok=True)
        code, out, err = await _run(npm, "install", "--prefix", folder, "--no-audit", "--no-fund", *packages)
        if code:
            pytest.skip(f"{packages[0]} cannot be installed here: {(out + err)[-300:]}")
        (folder / "whole").touch()
    return folder


async def framework_talk(framework: str, api: str, url: str, last: str, trusted: str = "") -> list[Any]:
    """All that a framework's client tells of until the model has said `last`. `trusted`: file of certificates."""
    environment = {"SSL_CERT_FILE": trusted} if trusted else {}
    if framework in _OF_NODE:
        program, folder = PROGRAMS / f"{framework}_client.mjs", await _node_modules(framework)
        code, out, err = await _run("node", program, api, url, last, cwd=folder, environment=environment)
    else:
        python = await _python(framework)
        code, out, err = await _run(
            python, PROGRAMS / f"{framework}_client.py", api, url, last, environment=environment
        )
    assert code == 0, err[-3000:]
    told: list[Any] = json.loads(out.splitlines()[-1])
    return told
