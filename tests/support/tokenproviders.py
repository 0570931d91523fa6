"""Authorization servers that real projects make, each a process on 127.0.0.1, that give tokens for MCP servers.

    async with oidc_provider(folder, gateway=AUDIENCE, resources=[url], grants={"alice": [url]}) as provider:
        token = await provider.sign_in("alice")     # a JWT whose audience is the gateway
        ... provider.issuer, provider.granted() ...

`oidc_provider` is the npm package of that name: token exchange for those who have a grant, client credentials,
resource indicators. A test is skipped where the package cannot be had.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import hashlib
import json
import re
import secrets
import signal
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qsl, urlencode, urljoin, urlsplit

import aiohttp
from joserfc.jwk import ECKey
from yarl import URL

from builtprograms import build_node, built
from fairlead_mcp.addresses import authority
from neededprograms import required
from ports import free_port

_SOURCES: Final = Path(__file__).parent / "token_providers"
TOKEN_EXCHANGE: Final = "urn:ietf:params:oauth:grant-type:token-exchange"
CLIENT: Final = "fairlead"
"""Client of the gateway, with a secret. See `CLIENTS`."""
CLIENTS: Final = {
    "client_secret_basic": CLIENT,
    "client_secret_post": "fairlead-post",
    "private_key_jwt": "fairlead-key",
}
"""Clients of the gateway by how they authenticate."""
SECRET: Final = "the secret/of fairlead+%20"
"""Secret of the clients that have one; Basic authentication has to escape it."""
KEY: Final = ECKey.generate_key("P-256", {"kid": "of-fairlead", "use": "sig", "alg": "ES256"}, private=True)
"""Key of the client that authenticates by `private_key_jwt`."""
DESK: Final = "desk"
"""Client of the people: a program on their machine, without a secret."""
_CALLBACK: Final = "http://127.0.0.1/callback"
_STEPS: Final = 12


def private_key() -> str:
    """`KEY` as PEM."""
    return KEY.as_pem(private=True).decode()


@dataclass
class TokenProvider:
    """One authorization server."""

    issuer: str
    base: str
    """Its URL on this machine: the issuer, unless that is a name that only a cluster knows."""
    gateway: str
    """Audience of the tokens with which people come to the gateway."""
    process: asyncio.subprocess.Process
    events: list[dict[str, Any]] = field(default_factory=list)
    """One for each token request."""

    @property
    def token_url(self) -> str:
        """URL of the token endpoint on this machine."""
        return f"{self.base}/token"

    @property
    def jwks_url(self) -> str:
        """URL of the keys on this machine."""
        return f"{self.base}/jwks"

    def granted(self, grant_type: str = TOKEN_EXCHANGE) -> list[dict[str, Any]]:
        """Token requests of the gateway's clients, also those that were refused."""
        return [event for event in self.events if event.get("grant_type") == grant_type]

    def unread_bytes(self) -> int:
        """Bytes that were sent to the provider and that it has not read, as while it pauses."""
        port = f":{urlsplit(self.base).port:04X}"
        lines = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
        return sum(int(line[4].partition(":")[2], 16) for line in lines if line[1].endswith(port))

    def pause(self) -> None:
        """Stop answering, as a server does that hangs: connections are taken and stay silent."""
        self.process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        """Answer again, also what came meanwhile."""
        self.process.send_signal(signal.SIGCONT)

    async def end(self) -> None:
        """End the process: connections are refused from now on."""
        with contextlib.suppress(ProcessLookupError):
            self.process.send_signal(signal.SIGCONT)
            self.process.kill()
        await self.process.wait()

    async def sign_in(self, person: str) -> str:
        """An access token for the gateway, by the authorization code flow with PKCE; `person` fills in the form."""
        verifier = secrets.token_urlsafe(32)
        digest = hashlib.sha256(verifier.encode()).digest()
        request = {
            "client_id": DESK,
            "response_type": "code",
            "redirect_uri": _CALLBACK,
            "scope": "openid",
            "resource": self.gateway,
            "code_challenge": base64.urlsafe_b64encode(digest).rstrip(b"=").decode(),
            "code_challenge_method": "S256",
        }
        async with aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True)) as session:
            code = await _code(session, f"{self.base}/auth?{urlencode(request)}", person)
            fields = {
                "grant_type": "authorization_code",
                "client_id": DESK,
                "code": code,
                "redirect_uri": _CALLBACK,
                "code_verifier": verifier,
                "resource": self.gateway,
            }
            async with session.post(self.token_url, data=fields) as answer:
                told = await answer.json()
        assert "access_token" in told, told
        token: str = told["access_token"]
        return token


async def _code(session: aiohttp.ClientSession, url: str, person: str) -> str:
    """Authorization code to which a provider's redirects and its form lead."""
    fields: dict[str, str] | None = None
    for _ in range(_STEPS):
        verb = "GET" if fields is None else "POST"
        async with session.request(verb, URL(url, encoded=True), data=fields, allow_redirects=False) as answer:
            text = await answer.text()
            assert answer.status < 400, text
            location = answer.headers.get("location", "")
        if location.startswith(_CALLBACK):
            told = dict(parse_qsl(urlsplit(location).query))
            assert "code" in told, told
            return told["code"]
        if location:
            url, fields = urljoin(url, location), None
            continue
        form = re.search(r'<form[^>]*action="([^"]+)".*?name="prompt" value="([^"]+)"', text, re.DOTALL)
        assert form is not None, text
        url, fields = urljoin(url, form[1]), {"prompt": form[2], "login": person, "password": "any"}
    raise AssertionError(f"the provider does not come to an end: {url}")


def _clients() -> list[dict[str, Any]]:
    """Client metadata (RFC 7591) of the gateway's clients and the people's."""
    own = {
        "grant_types": [TOKEN_EXCHANGE, "client_credentials"],
        "redirect_uris": [],
        "response_types": [],
    }
    clients: list[dict[str, Any]] = []
    for method, client in CLIENTS.items():
        credential: dict[str, Any] = {"client_secret": SECRET}
        if method == "private_key_jwt":
            credential = {"jwks": {"keys": [KEY.as_dict(private=False)]}, "token_endpoint_auth_signing_alg": "ES256"}
        clients.append({"client_id": client, "token_endpoint_auth_method": method, **own, **credential})
    people = {
        "client_id": DESK,
        "token_endpoint_auth_method": "none",
        "application_type": "native",
        "grant_types": ["authorization_code"],
        "response_types": ["code"],
        "redirect_uris": [_CALLBACK],
    }
    return [*clients, people]


@contextlib.asynccontextmanager
async def oidc_provider(
    folder: Path,
    *,
    gateway: str,
    resources: Sequence[str],
    grants: Mapping[str, Sequence[str]],
    scope: str = "tools:call",
    lifetime: int = 600,
    gateway_lifetime: int = 600,
    skew: int = 0,
    address: str = "127.0.0.1",
    port: int = 0,
    issuer: str = "",
) -> AsyncIterator[TokenProvider]:
    """The npm package `oidc-provider`, on a free port unless another is given. `issuer`: its URL by default.

    `resources`: servers for which there are tokens, with `scope`, for `lifetime` seconds. `grants`: which of them a
    person has consented to. `skew`: seconds that the provider's clock is ahead of this machine's.
    """
    required("node")
    required("npm")
    program = await asyncio.to_thread(built, _SOURCES / "oidc_provider", "oidc-provider", build_node)
    port = port or free_port()
    base = f"http://{authority(address, port)}"
    configuration = {
        "issuer": issuer or base,
        "address": address,
        "port": port,
        "gateway": gateway,
        "clients": _clients(),
        "resources": {
            **{url: {"scope": scope, "lifetime": lifetime} for url in resources},
            gateway: {"scope": "", "lifetime": gateway_lifetime},
        },
        "grants": grants,
        "skew": skew,
    }
    file = folder / "provider.json"
    file.write_text(json.dumps(configuration))
    with (folder / "provider.log").open("wb") as log:
        process = await asyncio.create_subprocess_exec(
            "node", program / "provider.mjs", file, stdout=asyncio.subprocess.PIPE, stderr=log
        )
    provider = TokenProvider(issuer or base, base, gateway, process)
    listening = asyncio.Event()
    reader = asyncio.get_running_loop().create_task(_read_events(provider, listening))
    try:
        async with asyncio.timeout(60):
            await listening.wait()
        assert process.returncode is None, (folder / "provider.log").read_text()
        yield provider
    finally:
        await provider.end()
        await reader


async def _read_events(provider: TokenProvider, listening: asyncio.Event) -> None:
    """Take what the provider tells, until it ends."""
    assert provider.process.stdout is not None
    while line := await provider.process.stdout.readline():
        event = json.loads(line)
        provider.events.append(event)
        if event["event"] == "listening":
            listening.set()
    listening.set()
