"""Dex, an OpenID provider that others wrote, with one person (EMAIL, PASSWORD) and the console as its client.

async with dex(tmp_path, "http://127.0.0.1:8080") as issuer:
    ...
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final

import aiohttp
import pytest

from controlplane import REPOSITORY
from ports import free_port
from waiting import until_async

CLIENT: Final = "fairlead-console"
SECRET: Final = "the secret/of the console+"
EMAIL: Final = "ann@example.com"
PERSON: Final = "ann"
PASSWORD: Final = "password"
PASSWORD_HASH: Final = "$2a$10$2b2cU8CPhOTaGrs1HRQuAueS7JTT5ZHsHSzYiFPm1leZck7Mc8T4W"
"""Bcrypt of PASSWORD."""


def dex_program() -> str:
    """Path of the program. Skips the test where it is not there."""
    done = subprocess.run(
        [REPOSITORY / "hack" / "dex", "--kept"], capture_output=True, text=True, check=False, timeout=20
    )
    if done.returncode != 0:
        pytest.skip("no Dex here: hack/dex compiles one")
    return done.stdout.strip()


def configuration(issuer: str, port: int, console: str) -> dict[str, Any]:
    """Configuration file, as JSON; `console` is the origin of the gateway."""
    return {
        "issuer": issuer,
        "storage": {"type": "memory"},
        "web": {"http": f"127.0.0.1:{port}"},
        "oauth2": {"skipApprovalScreen": True},
        "enablePasswordDB": True,
        "sessions": {"rememberMeCheckedByDefault": True},
        "staticClients": [
            {
                "id": CLIENT, "name": "The console", "secret": SECRET,
                "redirectURIs": [f"{console}/console/sign-in/oidc/callback"],
                "postLogoutRedirectURIs": [f"{console}/console/sign-in"],
            }
        ],
        "staticPasswords": [
            {
                "email": EMAIL, "hash": PASSWORD_HASH, "username": PERSON, "preferredUsername": PERSON,
                "groups": ["staff"], "userID": "08a8684b-db88-4b73-90a9-3cd1661f5466",
            }
        ],
    }  # fmt: skip


@contextlib.asynccontextmanager
async def dex(folder: Path, console: str) -> AsyncIterator[str]:
    """A provider on a free port; its issuer. It is at `localhost`: to browsers another site than the gateway's."""
    program, port = dex_program(), free_port()
    issuer, file = f"http://localhost:{port}/dex", folder / "dex.json"
    file.write_text(json.dumps(configuration(issuer, port, console)))
    with (folder / "dex.log").open("wb") as log:
        environ = {**os.environ, "DEX_SESSIONS_ENABLED": "true", "DEX_EXPAND_ENV": "false"}
        process = await asyncio.create_subprocess_exec(program, "serve", file, stdout=log, stderr=log, env=environ)
        try:
            await until_async("Dex", lambda: _serves(process, issuer, folder))
            yield issuer
        finally:
            with contextlib.suppress(ProcessLookupError):
                process.terminate()
            await process.wait()


async def _serves(process: asyncio.subprocess.Process, issuer: str, folder: Path) -> bool:
    assert process.returncode is None, (folder / "dex.log").read_text()
    try:
        async with (
            aiohttp.ClientSession() as session,
            session.get(f"{issuer}/.well-known/openid-configuration") as answer,
        ):
            return answer.status == 200
    except aiohttp.ClientError:
        return False
