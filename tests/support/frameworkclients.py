"""Clients of models that frameworks bring: programs of `framework_clients`, in environments of their own."""

from __future__ import annotations

import asyncio
import json
import os
import sys
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


async def _run(*words: str | Path, **environment: str) -> tuple[int, str, str]:
    """Exit code, standard output and standard error."""
    process = await asyncio.create_subprocess_exec(
        *map(str, words),
        env={**os.environ, **environment},
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
    folder = Path.home() / ".cache/fairlead/clients" / f"{framework}-{version}-python{sys.version_info[1]}"
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


async def framework_talk(framework: str, api: str, url: str, last: str, trusted: str = "") -> list[Any]:
    """All that a framework's client tells of until the model has said `last`. `trusted`: file of certificates."""
    environment = {"SSL_CERT_FILE": trusted} if trusted else {}
    python = await _python(framework)
    code, out, err = await _run(python, PROGRAMS / f"{framework}_client.py", api, url, last, **environment)
    assert code == 0, err[-3000:]
    told: list[Any] = json.loads(out.splitlines()[-1])
    return told
