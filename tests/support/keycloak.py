"""Keycloak's distribution of Maven Central, with its standard token exchange. It is large and slow to start, so only
nightly tests use it.

    async with keycloak(folder, gateway=AUDIENCE) as provider:
        token = await provider.sign_in("alice")

A test is skipped where Java or Maven is missing.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import subprocess
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import aiohttp

from builtprograms import build_program
from neededprograms import require_program
from ports import free_port
from waiting import until_async

_SOURCE: Final = Path(__file__).parent / "token_providers/keycloak"
_ARTIFACT: Final = "org.keycloak:keycloak-quarkus-dist"
_REALM: Final = "team"
_ADMIN: Final = "admin"
_FETCH_SECONDS: Final = 900
_START_SECONDS: Final = 240
CLIENT: Final = "fairlead"
SECRET: Final = "the secret/of fairlead+"
TOOLS: Final = "tools"
"""Client that represents the MCP servers: the audience of the exchanged tokens."""
STAFF: Final = "staff"
"""Group of the first user."""
_DESK: Final = "desk"
PASSWORD: Final = "password"


@dataclass(frozen=True)
class Keycloak:
    """A running Keycloak with one realm."""

    issuer: str
    base: str

    @property
    def token_url(self) -> str:
        return f"{self.issuer}/protocol/openid-connect/token"

    @property
    def jwks_url(self) -> str:
        return f"{self.issuer}/protocol/openid-connect/certs"

    async def sign_in(self, person: str) -> str:
        """Obtain an access token with the password grant. Its audiences are the gateway and the gateway's client."""
        fields = {"grant_type": "password", "client_id": _DESK, "username": person, "password": PASSWORD}
        async with aiohttp.ClientSession() as session, session.post(self.token_url, data=fields) as answer:
            told = await answer.json()
        assert "access_token" in told, told
        token: str = told["access_token"]
        return token

    async def disable(self, person: str) -> None:
        """Disable a user's account."""
        users = f"{self.base}/admin/realms/{_REALM}/users"
        async with _administrator(self.base) as session:
            async with session.get(users, params={"username": person, "exact": "true"}) as answer:
                (user,) = await answer.json()
            async with session.put(f"{users}/{user['id']}", json={**user, "enabled": False}) as answer:
                assert answer.status == 204, await answer.text()


def _build(source: Path, folder: Path) -> None:
    """Download the distribution and unpack it in `folder`."""
    version = (source / "version.txt").read_text().strip()
    artifact = f"-Dartifact={_ARTIFACT}:{version}:zip"
    fetch = ["mvn", "-q", "-B", "dependency:copy", artifact, f"-DoutputDirectory={folder}"]
    subprocess.run(fetch, cwd=folder, check=True, capture_output=True, timeout=_FETCH_SECONDS)
    (archive,) = folder.glob("*.zip")
    shutil.unpack_archive(archive, folder)
    archive.unlink()


def _audience(name: str, **config: str) -> dict[str, Any]:
    """A protocol mapper that adds an audience to access tokens."""
    return {
        "name": name,
        "protocol": "openid-connect",
        "protocolMapper": "oidc-audience-mapper",
        "config": {"access.token.claim": "true", **config},
    }


def _groups() -> dict[str, Any]:
    """A protocol mapper that adds a user's groups to ID and access tokens."""
    config = {"claim.name": "groups", "full.path": "false", "id.token.claim": "true", "access.token.claim": "true"}
    return {
        "name": "groups",
        "protocol": "openid-connect",
        "protocolMapper": "oidc-group-membership-mapper",
        "config": config,
    }


def _realm(gateway: str, people: tuple[str, ...], callbacks: Sequence[str]) -> dict[str, Any]:
    return {
        "realm": _REALM,
        "enabled": True,
        "groups": [{"name": STAFF}],
        "users": [
            {
                "username": person,
                "enabled": True,
                "email": f"{person}@example.com",
                "emailVerified": True,
                "firstName": person,
                "lastName": person,
                "groups": [f"/{STAFF}"] if person == people[0] else [],
                "realmRoles": ["offline_access"],  # belongs to the default roles, which imported users lack
                "credentials": [{"type": "password", "value": PASSWORD, "temporary": False}],
            }
            for person in people
        ],
        "clients": [
            {
                "clientId": _DESK,
                "publicClient": True,
                "directAccessGrantsEnabled": True,
                "protocolMappers": [
                    _audience("gateway", **{"included.custom.audience": gateway}),
                    _audience("client", **{"included.client.audience": CLIENT}),
                ],
            },
            {
                "clientId": CLIENT,
                "secret": SECRET,
                "serviceAccountsEnabled": True,
                "redirectUris": [*callbacks],
                "attributes": {"standard.token.exchange.enabled": "true"},
                "protocolMappers": [_audience("tools", **{"included.client.audience": TOOLS}), _groups()],
            },
            {"clientId": TOOLS, "secret": "unused"},
        ],
    }


@contextlib.asynccontextmanager
async def keycloak(
    folder: Path, *, gateway: str, people: tuple[str, ...] = ("alice", "bob"), callbacks: Sequence[str] = ()
) -> AsyncIterator[Keycloak]:
    """Run Keycloak on a free port in development mode, with a realm whose first user is in the group STAFF. `gateway`
    is the audience of the users' tokens; `callbacks` are the redirect URIs.
    """
    require_program("java")
    require_program("mvn")
    home = await asyncio.to_thread(build_program, _SOURCE, "keycloak", _build)
    (program,) = home.glob("keycloak-*/bin/kc.sh")
    base = f"http://127.0.0.1:{(port := free_port())}"
    environ = {**os.environ, "KC_BOOTSTRAP_ADMIN_USERNAME": _ADMIN, "KC_BOOTSTRAP_ADMIN_PASSWORD": _ADMIN}
    words = ["start-dev", "--db=dev-mem", f"--http-port={port}", "--http-host=127.0.0.1"]
    log_file = folder / "keycloak.log"
    with log_file.open("wb") as log:
        process = await asyncio.create_subprocess_exec(
            "bash", program, *words, stdout=log, stderr=log, env=environ, start_new_session=True
        )
        try:
            await until_async("Keycloak", lambda: _serves(process, base, log_file), seconds=_START_SECONDS)
            await _make_realm(base, _realm(gateway, people, callbacks))
            yield Keycloak(f"{base}/realms/{_REALM}", base)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()


async def _make_realm(base: str, realm: dict[str, Any]) -> None:
    async with (
        _administrator(base) as session,
        session.post(f"{base}/admin/realms", json=realm) as answer,
    ):
        assert answer.status == 201, await answer.text()


@contextlib.asynccontextmanager
async def _administrator(base: str) -> AsyncIterator[aiohttp.ClientSession]:
    """Requests with the administrator's token."""
    fields = {"grant_type": "password", "client_id": "admin-cli", "username": _ADMIN, "password": _ADMIN}
    async with aiohttp.ClientSession() as session:
        async with session.post(f"{base}/realms/master/protocol/openid-connect/token", data=fields) as answer:
            session.headers["authorization"] = f"Bearer {(await answer.json())['access_token']}"
        yield session


async def _serves(process: asyncio.subprocess.Process, base: str, log: Path) -> bool:
    assert process.returncode is None, await asyncio.to_thread(log.read_text)
    try:
        async with (
            aiohttp.ClientSession() as session,
            session.get(f"{base}/realms/master/.well-known/openid-configuration") as answer,
        ):
            return answer.status == 200
    except aiohttp.ClientError:
        return False
