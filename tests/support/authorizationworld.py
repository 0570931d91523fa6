"""A gateway whose authorization server stands in front of an OpenID provider, with a scripted browser and client.

async with authorization_world(tmp_path) as world:
    tokens = await world.sign_in()                      # authorize, log in, consent, redeem
    answer = await world.call(tokens["access_token"])
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import re
import secrets
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from html import unescape
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import aiohttp

from fairlead_api.documents.codec import Document
from fairlead_app.authentication import build_trust
from fairlead_app.gateway import Gateway
from fairlead_app.settings import Settings
from gatewayworld import catalog, running
from oidcprovider import CLIENT, BareBrowser, OidcProvider, Page, parameters, providing
from ports import free_port

CLIENT_ID = "desk"
BACK = "https://desk.example/back"
OTHER_ID = "other"
OTHER_BACK = "https://other.example/back"
LOCAL_ID = "local"
LOCAL_BACK = "http://127.0.0.1/back"
SECRET_ID = "vault"
SECRET = "a secret of the vault"
SCOPES = ("mcp:tools", "mcp:admin")


@dataclass
class Attempt:
    """A client's authorization request."""

    client_id: str = CLIENT_ID
    redirect_uri: str = BACK
    verifier: str = field(default_factory=lambda: secrets.token_urlsafe(32))
    state: str = field(default_factory=lambda: secrets.token_urlsafe(8))
    more: Mapping[str, str | None] = field(default_factory=dict)
    """Parameters that replace the usual ones; None removes one."""

    @property
    def query(self) -> dict[str, str]:
        digest = hashlib.sha256(self.verifier.encode()).digest()
        usual = {
            "response_type": "code",
            "client_id": self.client_id,
            "redirect_uri": self.redirect_uri,
            "code_challenge": base64.urlsafe_b64encode(digest).rstrip(b"=").decode(),
            "code_challenge_method": "S256",
            "state": self.state,
        }
        return {name: value for name, value in {**usual, **self.more}.items() if value is not None}


@dataclass
class AuthorizationWorld:
    """One gateway, its provider, and a browser that alice uses."""

    base: str
    gateway: Gateway
    provider: OidcProvider
    browser: BareBrowser

    async def authorize(self, attempt: Attempt, browser: BareBrowser | None = None) -> Page:
        """Answer to a browser that opens a client's authorization request."""
        return await (browser or self.browser).get(f"/oauth/authorize?{urlencode(attempt.query)}")

    async def come_back(self, begun: Page, browser: BareBrowser | None = None) -> Page:
        """Log in at the provider. Returns the answer to the browser after its redirect back."""
        browser = browser or self.browser
        assert begun.status == 303, begun.text
        return await browser.get(await browser.come_back(begun.location))

    async def decide(
        self, page: Page, decision: str = "allow", *, browser: BareBrowser | None = None, **more: str
    ) -> Page:
        """Submit the form of a consent page."""
        fields = {**hidden_fields(page), "decision": decision, **more}
        return await (browser or self.browser).post("/oauth/consent", **fields)

    async def complete_authorization(self, attempt: Attempt, browser: BareBrowser | None = None) -> dict[str, str]:
        """Authorize, log in, and consent if a page asks for it. Returns the parameters of the redirect to the
        client.
        """
        page = await self.come_back(await self.authorize(attempt, browser), browser)
        if page.status == 200:
            page = await self.decide(page, browser=browser)
        return parameters(target_of(page))

    async def redeem(self, attempt: Attempt, code: str, **more: str | None) -> tuple[int, dict[str, Any]]:
        """Exchange a code for tokens."""
        usual = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": attempt.redirect_uri,
            "client_id": attempt.client_id,
            "code_verifier": attempt.verifier,
        }
        return await self.token({**usual, **more})

    async def refresh(self, tokens: Mapping[str, Any], **more: str | None) -> tuple[int, dict[str, Any]]:
        """Exchange a refresh token for tokens."""
        usual = {"grant_type": "refresh_token", "refresh_token": tokens["refresh_token"], "client_id": CLIENT_ID}
        return await self.token({**usual, **more})

    async def token(
        self,
        fields: Mapping[str, str | None] | Sequence[tuple[str, str]],
        path: str = "/oauth/token",
        **headers: str,
    ) -> tuple[int, Any]:
        """Send a client's form to the token endpoint."""
        pairs = fields.items() if isinstance(fields, Mapping) else fields
        sent = [(name, value) for name, value in pairs if value is not None]
        async with (
            aiohttp.ClientSession() as session,
            session.post(self.base + path, data=sent, headers=headers) as answer,
        ):
            return answer.status, await answer.json()

    async def sign_in(self, attempt: Attempt | None = None) -> dict[str, Any]:
        """Do all steps of a sign-in. Returns the answer of the token endpoint."""
        attempt = attempt or Attempt()
        answer = await self.complete_authorization(attempt)
        status, tokens = await self.redeem(attempt, answer["code"])
        assert status == 200, tokens
        return tokens

    async def call(self, token: str, path: str = "/v1/tools") -> int:
        """Status of an MCP request with an access token."""
        headers = {"authorization": f"Bearer {token}"}
        async with aiohttp.ClientSession() as session, session.get(self.base + path, headers=headers) as answer:
            await answer.read()
            return answer.status


def another_browser(world: AuthorizationWorld) -> BareBrowser:
    """A browser that does not share the cookies of this world's browser."""
    return BareBrowser(world.base)


def hidden_fields(page: Page) -> dict[str, str]:
    """Hidden fields of the form on a page."""
    fields = re.findall(r'<input type="hidden" name="([^"]+)" value="([^"]*)">', page.text)
    return {name: unescape(value) for name, value in fields}


def target_of(page: Page) -> str:
    """URL to which a page or redirect leads."""
    if page.location:
        return page.location
    refresh = re.search(r'<meta http-equiv="refresh" content="0; url=([^"]+)">', page.text)
    assert refresh is not None, page.text
    return unescape(refresh[1])


def identity_file(folder: Path, issuers: list[dict[str, Any]], providers: list[dict[str, Any]], **server: Any) -> Path:
    """Write identity.yaml."""
    secret = hashlib.sha256(SECRET.encode()).hexdigest()
    clients = [
        {"id": CLIENT_ID, "name": "Desk", "redirectUris": [BACK]},
        {"id": OTHER_ID, "redirectUris": [OTHER_BACK]},
        {"id": LOCAL_ID, "redirectUris": [LOCAL_BACK]},
        {"id": SECRET_ID, "redirectUris": [BACK], "secretSha256": secret},
        *server.pop("more_clients", ()),
    ]
    content = {
        "issuers": issuers,
        "scopes": server.pop("scopes", ()),
        **({"serviceAccounts": accounts} if (accounts := server.pop("service_accounts", None)) else {}),
        "authorizationServer": {"providers": providers, "clients": clients, **server},
    }
    file = folder / "identity.yaml"
    file.write_text(json.dumps(content))
    return file


@contextlib.asynccontextmanager
async def authorization_world(folder: Path, **more: Any) -> AsyncIterator[AuthorizationWorld]:
    """A gateway with one server and a provider. `server` has members of `authorizationServer`; other keywords are
    settings.
    """
    async with providing() as provider:
        (folder / "secret").write_text(provider.secret)
        issuers = [{"issuer": provider.url, "name": "corp", "agentClaims": ["azp"], "groupsClaim": "groups"}]
        client = {"issuer": "corp", "clientId": CLIENT, "clientSecretFile": str(folder / "secret")}
        file = identity_file(folder, issuers, [client], **more.pop("server", {}))
        async with gateway_of(folder, file, **more) as (base, gateway):
            yield AuthorizationWorld(base, gateway, provider, BareBrowser(base))


@contextlib.asynccontextmanager
async def two_providers(
    folder: Path, **server: Any
) -> AsyncIterator[tuple[AuthorizationWorld, OidcProvider, OidcProvider]]:
    """A gateway in front of the providers `corp` and `partner`, of which the world's is `partner`. `server` are members
    of `authorizationServer`.
    """
    async with providing() as corp, providing() as partner:
        names = {"corp": corp, "partner": partner}
        issuers = [{"issuer": provider.url, "name": name} for name, provider in names.items()]
        clients = [{"issuer": name, "clientId": CLIENT} for name in names]
        corp.secret = partner.secret = ""
        async with gateway_of(folder, identity_file(folder, issuers, clients, **server)) as (base, gateway):
            yield AuthorizationWorld(base, gateway, partner, BareBrowser(base)), corp, partner


@contextlib.asynccontextmanager
async def gateway_of(
    folder: Path, identity: Path, *documents: Document, port: int = 0, **more: Any
) -> AsyncIterator[tuple[str, Gateway]]:
    """A gateway with an identity file and one server, and its address, at a free port unless one is given. `documents`
    are served besides the server's; `kube` reviews tokens of ServiceAccounts; `shop` is the server's URL, where nobody
    answers by default.
    """
    port = port or free_port()
    base = f"http://127.0.0.1:{port}"
    settings: dict[str, Any] = {
        "identity": identity,
        "port": port,
        "public_url": base,
        "grants_directory": folder / "grants",
        **more,
    }
    runtime = {name: settings.pop(name) for name in ("client_documents",) if name in settings}
    kube = settings.pop("kube", None)
    shop = settings.pop("shop", "http://127.0.0.1:9/mcp")
    trust = build_trust(Settings.of(**settings), kube)
    async with running(
        folder, catalog("shop", shop, ["buy"]), *documents, **settings, **runtime, trust=trust
    ) as gateway:
        yield base, gateway
