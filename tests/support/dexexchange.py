"""Two Dex processes: users sign in at the first, and the second exchanges their ID tokens for tokens for MCP servers.

async with dex_exchange(folder) as dexes:
    token = await dexes.sign_in("alice")        # an ID token of `dexes.people`, whose audience is the gateway
    ... dexes.issuer, dexes.token_url ...
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import aiohttp

from dexprocess import dex_process
from ports import free_port

GATEWAY: Final = "gateway"
"""Client at which people sign in: the audience of their tokens."""
CLIENT: Final = "fairlead"
SECRET: Final = "the secret/of fairlead+"
TOOLS: Final = "tools"
"""Client that represents the MCP servers: the audience of the exchanged tokens."""
SCOPES: Final = ("openid", "profile", f"audience:server:client_id:{TOOLS}")
CONNECTOR: Final = "people"
"""Value of `connector_id`, which Dex requires."""
ID_TOKEN: Final = "urn:ietf:params:oauth:token-type:id_token"
"""Type of the people's tokens."""
PASSWORD: Final = "password"
_PASSWORD_HASH: Final = "$2a$10$2b2cU8CPhOTaGrs1HRQuAueS7JTT5ZHsHSzYiFPm1leZck7Mc8T4W"
_EXCHANGE: Final = "urn:ietf:params:oauth:grant-type:token-exchange"


@dataclass(frozen=True)
class DexExchange:
    """Two issuers, without a slash at the end."""

    people: str
    """Issuer of the people's tokens."""
    issuer: str
    """Issuer of the servers' tokens."""

    @property
    def token_url(self) -> str:
        return f"{self.issuer}/token"

    @property
    def jwks_url(self) -> str:
        return f"{self.issuer}/keys"

    async def sign_in(self, person: str) -> str:
        """Obtain an ID token with the password grant."""
        fields = {
            "grant_type": "password",
            "username": f"{person}@example.com",
            "password": PASSWORD,
            "scope": "openid profile email",
        }
        headers = {"authorization": aiohttp.encode_basic_auth(GATEWAY, GATEWAY)}
        async with (
            aiohttp.ClientSession() as session,
            session.post(f"{self.people}/token", data=fields, headers=headers) as answer,
        ):
            told = await answer.json()
        assert "id_token" in told, told
        token: str = told["id_token"]
        return token


def _person(name: str) -> dict[str, Any]:
    return {
        "email": f"{name}@example.com",
        "hash": _PASSWORD_HASH,
        "username": name,
        "preferredUsername": name,
        "emailVerified": True,
        "userID": f"id-of-{name}",
    }


@contextlib.asynccontextmanager
async def dex_exchange(
    folder: Path, people: tuple[str, ...] = ("alice", "bob"), callbacks: Sequence[str] = ()
) -> AsyncIterator[DexExchange]:
    """Run both Dexes on free ports. `callbacks` are the redirect URIs of the people's Dex. Skips the test without
    Dex.
    """
    ports = free_port(), free_port()
    dexes = DexExchange(*(f"http://127.0.0.1:{port}/dex" for port in ports))
    folders = folder / "people", folder / "servers"
    for each in folders:
        each.mkdir()
    of_people = {
        "issuer": dexes.people,
        "storage": {"type": "memory"},
        "web": {"http": f"127.0.0.1:{ports[0]}"},
        "oauth2": {
            "passwordConnector": "local",
            "grantTypes": ["password", "authorization_code", "refresh_token"],
            "skipApprovalScreen": True,
        },
        "enablePasswordDB": True,
        "staticPasswords": [*map(_person, people)],
        "staticClients": [{"id": GATEWAY, "name": "The gateway", "secret": GATEWAY, "redirectURIs": [*callbacks]}],
    }
    connector = {
        "type": "oidc",
        "id": CONNECTOR,
        "name": "People",
        "config": {
            "issuer": dexes.people,
            "clientID": GATEWAY,
            "clientSecret": GATEWAY,
            "redirectURI": f"{dexes.issuer}/callback",
        },
    }
    of_servers = {
        "issuer": dexes.issuer,
        "storage": {"type": "memory"},
        "web": {"http": f"127.0.0.1:{ports[1]}"},
        "oauth2": {"grantTypes": [_EXCHANGE, "client_credentials"]},
        "connectors": [connector],
        "staticClients": [
            {"id": CLIENT, "name": "Fairlead", "secret": SECRET, "redirectURIs": []},
            {"id": TOOLS, "name": "Tools", "secret": "unused", "redirectURIs": [], "trustedPeers": [CLIENT]},
        ],
    }
    async with dex_process(folders[0], of_people), dex_process(folders[1], of_servers):
        yield dexes
