"""Dex, an OpenID provider that `hack/dex` compiles, as a process.

async with dex_process(folder, configuration): ...
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import subprocess
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from controlplane import REPOSITORY
from waiting import LONGEST, until_async


def dex_program() -> str:
    """Path of the program. Skips the test if it is missing."""
    done = subprocess.run(
        [REPOSITORY / "hack" / "dex", "--kept"], capture_output=True, text=True, check=False, timeout=20
    )
    if done.returncode != 0:
        pytest.skip("no Dex here: hack/dex compiles one")
    return done.stdout.strip()


@contextlib.asynccontextmanager
async def dex_process(folder: Path, configuration: Mapping[str, Any]) -> AsyncIterator[asyncio.subprocess.Process]:
    """Run Dex with a configuration. Its files are in the folder."""
    program = dex_program()
    file, log_file = folder / "dex.json", folder / "dex.log"
    file.write_text(json.dumps(configuration))
    with log_file.open("wb") as log:
        environ = {**os.environ, "DEX_SESSIONS_ENABLED": "true", "DEX_EXPAND_ENV": "false"}
        process = await asyncio.create_subprocess_exec(program, "serve", file, stdout=log, stderr=log, env=environ)
        try:
            await until_async("Dex", lambda: _serves(process, configuration["issuer"], log_file))
            yield process
        finally:
            await end_process(process)


async def end_process(process: asyncio.subprocess.Process, seconds: float = LONGEST) -> None:
    """End a process; kill it if it does not end within some seconds."""
    with contextlib.suppress(ProcessLookupError):
        process.terminate()
        try:
            await asyncio.wait_for(process.wait(), seconds)
        except TimeoutError:
            process.kill()
    await process.wait()


async def _serves(process: asyncio.subprocess.Process, issuer: str, log: Path) -> bool:
    assert process.returncode is None, await asyncio.to_thread(log.read_text)
    try:
        async with (
            aiohttp.ClientSession() as session,
            session.get(f"{issuer}/.well-known/openid-configuration") as answer,
        ):
            return answer.status == 200
    except aiohttp.ClientError:
        return False
