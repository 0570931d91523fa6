"""Authorization servers of real projects, each a process on 127.0.0.1, which issue tokens for MCP servers.

    async with oidc_provider(folder, gateway=AUDIENCE, resources=[url], grants={"alice": [url]}) as provider:
        token = await provider.sign_in("alice")     # a JWT whose audience is the gateway
        ... provider.issuer, provider.token_events() ...

`oidc_provider` runs the npm package `oidc-provider`, with token exchange for users who have a grant, client credentials
and resource indicators. A test is skipped if the package cannot be installed. The tests of a module share the process
of the fixture `shared_provider`: `oidc_provider(…, shared=…)` changes its settings and clears its events.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import re
import secrets
import signal
import subprocess
import threading
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Final
from urllib.parse import parse_qsl, urlencode, urljoin, urlsplit

import aiohttp
import pytest
from joserfc.jwk import ECKey
from yarl import URL

from builtprograms import build_node, build_program
from fairlead_mcp.addresses import authority
from neededprograms import require_program
from ports import free_port
from waiting import eventually

_SOURCES: Final = Path(__file__).parent / "token_providers"
TOKEN_EXCHANGE: Final = "urn:ietf:params:oauth:grant-type:token-exchange"
CLIENT: Final = "fairlead"
"""Client of the gateway, with a secret. See `CLIENTS`."""
CLIENTS: Final = {
    "client_secret_basic": CLIENT,
    "client_secret_post": "fairlead-post",
    "private_key_jwt": "fairlead-key",
}
"""Clients of the gateway by method of client authentication."""
SECRET: Final = "the secret/of fairlead+%20"
"""Secret of the clients that have one; Basic authentication has to escape it."""
KEY: Final = ECKey.generate_key("P-256", {"kid": "of-fairlead", "use": "sig", "alg": "ES256"}, private=True)
"""Key of the client that authenticates by `private_key_jwt`."""
DESK: Final = "desk"
"""Client of the users: a program on their machine, without a secret."""
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
    """URL on this machine. It is also the issuer, unless the issuer's name is known only in a cluster."""
    process: subprocess.Popen[bytes]
    gateway: str = ""
    """Audience of the tokens with which users call the gateway."""
    events: list[dict[str, Any]] = field(default_factory=list)
    """One event for each token request since the last `configure`."""
    marks: int = 0
    """Number of the last mark that the process has printed. All events before it are in `events`."""

    @property
    def token_url(self) -> str:
        """URL of the token endpoint on this machine."""
        return f"{self.base}/token"

    @property
    def jwks_url(self) -> str:
        """URL of the keys on this machine."""
        return f"{self.base}/jwks"

    def token_events(self, grant_type: str = TOKEN_EXCHANGE) -> list[dict[str, Any]]:
        """Events of token requests by the gateway's clients with this grant type, including refused requests."""
        return [event for event in self.events if event.get("grant_type") == grant_type]

    def unread_bytes(self) -> int:
        """Number of bytes that were sent to the provider and that it has not read, because it pauses."""
        port = f":{urlsplit(self.base).port:04X}"
        lines = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
        return sum(int(line[4].partition(":")[2], 16) for line in lines if line[1].endswith(port))

    def pause(self) -> None:
        """Stop answering, like a server that hangs: connections are accepted, but requests get no answer."""
        self.process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        """Answer again, including the requests that arrived during the pause."""
        self.process.send_signal(signal.SIGCONT)

    def end(self) -> None:
        """End the process. Connections are then refused."""
        self.go_on()
        self.process.kill()
        self.process.wait()

    async def configure(self, gateway: str, **settings: Any) -> None:
        """Change the settings of the process (`resources`, `grants`, `skew`), and clear its events."""
        self.gateway = gateway
        await self.mark(gateway=gateway, **settings)
        self.events.clear()

    async def mark(self, **settings: Any) -> None:
        """Wait until all earlier events are in `events`."""
        number = self.marks + 1
        async with aiohttp.ClientSession() as session:
            url = f"{self.base}/settings-of-test"
            async with session.post(url, data=json.dumps({"number": number, **settings})) as answer:
                assert answer.status == 200, await answer.text()
        await eventually(lambda: self.marks >= number)

    def read_events(self, output: IO[bytes], listening: threading.Event) -> None:
        """Read the events that the process prints, until it ends."""
        for line in output:
            event = json.loads(line)
            if event["event"] == "listening":
                listening.set()
            elif event["event"] == "mark":
                self.marks = event["number"]
            else:
                self.events.append(event)
        listening.set()

    async def sign_in(self, person: str) -> str:
        """Obtain an access token for the gateway with the authorization code flow and PKCE, as the user `person`."""
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
    """Follow a provider's redirects and submit its form. Returns the authorization code."""
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
    raise AssertionError(f"the provider redirects without end: {url}")


def _clients(callbacks: Sequence[str]) -> list[dict[str, Any]]:
    """Client metadata (RFC 7591) of the gateway's and the users' clients. With `callbacks`, users can also sign in with
    CLIENT.
    """
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
    if callbacks:
        grants = [*own["grant_types"], "authorization_code", "refresh_token"]
        clients[0].update(grant_types=grants, redirect_uris=list(callbacks), response_types=["code"])
    people = {
        "client_id": DESK,
        "token_endpoint_auth_method": "none",
        "application_type": "native",
        "grant_types": ["authorization_code"],
        "response_types": ["code"],
        "redirect_uris": [_CALLBACK],
    }
    return [*clients, people]


@contextlib.contextmanager
def _run_process(
    folder: Path, *, address: str = "127.0.0.1", port: int = 0, issuer: str = "", callbacks: Sequence[str] = ()
) -> Iterator[TokenProvider]:
    """Run the process, which has no settings yet."""
    require_program("node")
    require_program("npm")
    program = build_program(_SOURCES / "oidc_provider", "oidc-provider", build_node)
    port = port or free_port()
    base = f"http://{authority(address, port)}"
    file = folder / "provider.json"
    told = {"issuer": issuer or base, "address": address, "port": port, "clients": _clients(callbacks)}
    file.write_text(json.dumps(told))
    with (folder / "provider.log").open("wb") as log:
        process = subprocess.Popen(["node", program / "provider.mjs", file], stdout=subprocess.PIPE, stderr=log)
    provider = TokenProvider(issuer or base, base, process)
    listening = threading.Event()
    assert process.stdout is not None
    reader = threading.Thread(target=provider.read_events, args=(process.stdout, listening), name="oidc-provider")
    reader.start()
    try:
        assert listening.wait(60)
        assert process.poll() is None, (folder / "provider.log").read_text()
        yield provider
    finally:
        provider.end()
        reader.join()
        process.stdout.close()


@pytest.fixture(scope="module")
def shared_provider(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TokenProvider]:
    """Process that all tests of a module share, for `oidc_provider`."""
    with _run_process(tmp_path_factory.mktemp("provider")) as provider:
        yield provider


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
    shared: TokenProvider | None = None,
    **process: Any,
) -> AsyncIterator[TokenProvider]:
    """Run the npm package `oidc-provider`, in the process `shared` or in a new process, which a test may end.

    `resources`: servers for which tokens are issued, with `scope`, for `lifetime` seconds. `grants`: servers to which
    each user has consented. `skew`: seconds by which the provider's clock is ahead of this machine's. `process`:
    `address`, `port` and `issuer` of a new process, by default a free port of 127.0.0.1 and its URL, and `callbacks`,
    the redirect URIs of CLIENT if the gateway signs users in.
    """
    with contextlib.ExitStack() as stack:
        if shared is None:
            # blocking is fine here, because nothing else runs in the test yet
            shared = stack.enter_context(_run_process(folder, **process))
        await shared.configure(
            gateway,
            resources={
                **{url: {"scope": scope, "lifetime": lifetime} for url in resources},
                gateway: {"scope": "", "lifetime": gateway_lifetime},
            },
            grants=grants,
            skew=skew,
        )
        try:
            yield shared
        finally:
            shared.go_on()
            if shared.process.poll() is None:
                await shared.mark()
