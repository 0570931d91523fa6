"""An OpenID provider for the authorization code flow: real HTTP on 127.0.0.1, real RS256 keys, and attacks on demand.

async with providing() as provider, signing_in(tmp_path, provider) as browser:
    page = await browser.sign_in()
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import secrets
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote_plus, urlencode, urlsplit

import aiohttp
from yarl import URL

from fairlead_app.authentication import build_trust
from fairlead_app.settings import Settings
from gatewayworld import catalog, running
from issuers import DISCOVERY, LocalIssuer
from ports import free_port
from rawserver import Reply, Request, raw_server

CLIENT = "console"
SECRET = "s3cr3t/+"


class OidcProvider(LocalIssuer):
    """A provider at which `person` is already signed in, or signs in with a form (`asks`). Tests may change every
    attribute.
    """

    def __init__(self) -> None:
        super().__init__()
        self.person = "alice"
        self.asks = False
        self.secret = SECRET
        """Secret of the client; empty for a public client."""
        self.metadata: dict[str, Any] = {"authorization_response_iss_parameter_supported": True}
        self.redirect: dict[str, Any] = {}
        """Parameters that replace those of the redirect back; None removes one."""
        self.id_claims: dict[str, Any] = {}
        self.access_claims: dict[str, Any] = {}
        self.sign_id: Callable[[dict[str, Any]], str] | None = None
        """Makes the ID token from its claims."""
        self.access: str | None = None
        """The access token, if it is not a JWT."""
        self.quotes = 0
        """Number of token requests that it refuses, from the first on, with a message that quotes the request."""
        self.padding = 0
        """Bytes of whitespace before each answer."""
        self.codes: dict[str, dict[str, str]] = {}
        self.asked_for: list[dict[str, str]] = []
        """Parameters of each authorization request."""
        self.refreshes: dict[str, dict[str, str]] = {}
        """Grants by refresh token. Each renewal replaces the token."""
        self.gives_refresh = True
        self.exchanged: list[dict[str, str]] = []
        """Fields of each token request."""
        self.revoked: list[str] = []
        """Tokens that the revocation endpoint received. Clients know this endpoint only if `metadata` names it."""
        self.revocation_status = 200

    async def handle(self, request: Request, reply: Reply) -> None:
        path, _, query = request.path.partition("?")
        fields = dict(parse_qsl(query))
        if self.away:
            reply.send(503)
        elif path == DISCOVERY:
            self._json(reply, 200, self._metadata())
        elif path == "/authorize":
            self._authorize(reply, fields)
        elif path == "/login":
            self._back(reply, dict(parse_qsl(request.body.decode())), 303)
        elif path == "/token":
            self._token(reply, request)
        elif path == "/revoke":
            self._revoke(reply, request)
        elif path == "/favicon.ico":  # otherwise browsers complain
            reply.send(204)
        elif path == "/logout":
            reply.send(302, location=fields["post_logout_redirect_uri"])
        else:
            await super().handle(request, reply)

    def _metadata(self) -> dict[str, Any]:
        told = {
            "issuer": self.url,
            "jwks_uri": self.url + "/jwks",
            "authorization_endpoint": self.url + "/authorize",
            "token_endpoint": self.url + "/token",
            "end_session_endpoint": self.url + "/logout",
            "code_challenge_methods_supported": ["plain", "S256"],
            **self.metadata,
        }
        return {name: value for name, value in told.items() if value is not None}

    def _authorize(self, reply: Reply, fields: dict[str, str]) -> None:
        self.asked_for.append(fields)
        assert fields["response_type"] == "code"
        assert (fields["client_id"], fields["code_challenge_method"]) == (CLIENT, "S256")
        if not self.asks:
            self._back(reply, fields, 302)
            return
        if fields.get("prompt") == "none":
            told = {"error": "login_required", "state": fields["state"], "iss": self.url}
            reply.send(302, location=self._answer(fields, told))
            return
        hidden = "".join(f'<input type="hidden" name="{name}" value="{value}">' for name, value in fields.items())
        page = f'<form method="post" action="/login">{hidden}<button>Yes, it is me</button></form>'
        reply.send(200, page.encode(), kind="text/html")

    def _back(self, reply: Reply, fields: dict[str, str], status: int) -> None:
        code = secrets.token_urlsafe(12)
        self.codes[code] = {**fields, "person": self.person}
        told = {"code": code, "state": fields["state"], "iss": self.url}
        reply.send(status, location=self._answer(fields, told))

    def _answer(self, fields: dict[str, str], told: dict[str, str]) -> str:
        parameters_sent = {name: value for name, value in {**told, **self.redirect}.items() if value is not None}
        return f"{fields['redirect_uri']}?{urlencode(parameters_sent)}"

    def _token(self, reply: Reply, request: Request) -> None:
        fields = dict(parse_qsl(request.body.decode()))
        self.exchanged.append(fields)
        is_client = self._is_client(request, fields)
        renewed = self.refreshes.pop(fields.get("refresh_token", ""), None) if is_client else None
        grant = self.codes.pop(fields.get("code", ""), None)
        digest = hashlib.sha256(fields.get("code_verifier", "").encode()).digest()
        challenge = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
        if len(self.exchanged) <= self.quotes:
            secrets = f"{request.headers['authorization']} {request.body.decode()[-80:]} {self.secret}"
            self._json(reply, 401, {"error": "invalid_client", "error_description": secrets})
        elif not is_client:
            self._json(reply, 401, {"error": "invalid_client"})
        elif renewed is not None:
            self._json(reply, 200, self._tokens(renewed))
        elif grant is None or challenge != grant["code_challenge"] or fields["redirect_uri"] != grant["redirect_uri"]:
            self._json(reply, 400, {"error": "invalid_grant", "error_description": "no <b>such</b> code"})
        else:
            self._json(reply, 200, self._tokens(grant))

    def _revoke(self, reply: Reply, request: Request) -> None:
        fields = dict(parse_qsl(request.body.decode()))
        assert self._is_client(request, fields)
        self.revoked.append(fields["token"])
        self.refreshes.pop(fields["token"], None)
        reply.send(self.revocation_status)

    def _is_client(self, request: Request, fields: dict[str, str]) -> bool:
        if not self.secret:
            return fields.get("client_id") == CLIENT
        if "client_secret" in fields:
            return (fields["client_id"], fields["client_secret"]) == (CLIENT, self.secret)
        kind, _, pair = request.headers.get("authorization", "").partition(" ")
        name, _, secret = base64.b64decode(pair).decode().partition(":")
        return (kind, unquote_plus(name), unquote_plus(secret)) == ("Basic", CLIENT, self.secret)

    def _tokens(self, grant: dict[str, str]) -> dict[str, Any]:
        who = {"sub": grant["person"], "azp": CLIENT}
        told = {**who, "aud": CLIENT, "nonce": grant["nonce"], **self.id_claims}
        made = self.token(**told) if self.sign_id is None else self.sign_id(self.claims(**told))
        access = self.access or self.token(**{**who, "aud": grant.get("resource", CLIENT), **self.access_claims})
        tokens = {"token_type": "Bearer", "access_token": access, "id_token": made}
        if self.gives_refresh:
            tokens["refresh_token"] = secrets.token_urlsafe(12)
            self.refreshes[tokens["refresh_token"]] = grant
        return tokens

    def _json(self, reply: Reply, status: int, told: dict[str, Any]) -> None:
        reply.send(status, b" " * self.padding + json.dumps(told).encode())


@contextlib.asynccontextmanager
async def providing() -> AsyncIterator[OidcProvider]:
    """A provider on a free port."""
    provider = OidcProvider()
    async with raw_server(provider.handle) as server:
        provider.url = f"http://127.0.0.1:{server.port}"
        yield provider


def console_of(folder: Path, provider: OidcProvider, **more: Any) -> dict[str, Any]:
    """Settings of a gateway whose console signs users in at the provider. `audiences` belong to the issuer. With
    `jwks_uri`, its keys are not discovered.
    """
    file = folder / "identity.yaml"
    audiences = more.pop("audiences", ())
    keys = provider.url + "/jwks" if more.pop("jwks_uri", False) else ""
    issuer = {"issuer": provider.url, "agentClaims": ["sub"], "audiences": audiences, "jwksUri": keys}
    file.write_text(json.dumps({"issuers": [issuer], "scopes": more.pop("scopes", ())}))
    port = free_port()
    settings: dict[str, Any] = {
        "identity": file,
        "port": port,
        "public_url": f"http://127.0.0.1:{port}",
        "console_client_id": CLIENT,
        "console_client_secret": provider.secret,
        **more,
    }
    return {**settings, "trust": build_trust(Settings.of(**settings))}


@contextlib.asynccontextmanager
async def signing_in(folder: Path, provider: OidcProvider, **more: Any) -> AsyncIterator[BareBrowser]:
    """A browser at the console of a gateway with one server. Keywords are those of `console_of`."""
    settings = console_of(folder, provider, **more)
    async with running(folder, catalog("shop", "http://127.0.0.1:9/mcp", ["buy"]), **settings):
        yield BareBrowser(settings["public_url"])


@dataclass(frozen=True)
class Page:
    """An answer to a browser."""

    status: int
    text: str
    location: str
    cookies: list[str]
    """`Set-Cookie` lines."""
    headers: Mapping[str, str]


@dataclass
class BareBrowser:
    """A browser that follows no redirects and sends all cookies to all hosts. `base` is the gateway's address."""

    base: str
    cookies: dict[str, str] = field(default_factory=dict)

    @property
    def has_session(self) -> bool:
        """Whether it has a session cookie."""
        return any("_oidc_" not in name for name in self.cookies)

    async def get(self, url: str, **headers: str) -> Page:
        """Answer at a URL, or at a path of the gateway."""
        return await self._ask("GET", url, headers, None)

    async def post(self, url: str, **fields: str) -> Page:
        """Answer to a submitted form."""
        return await self._ask("POST", url, {"origin": self.base}, fields)

    async def begin(self, path: str = "/console/servers") -> str:
        """Begin a sign-in. Returns the address at the provider."""
        answer = await self.get(f"/console/sign-in/oidc?{urlencode({'next': path})}")
        assert answer.status == 303, answer.text
        return answer.location

    async def come_back(self, address: str) -> str:
        """Sign in at the provider. Returns the address of its redirect back."""
        return (await self.get(address)).location

    async def sign_in(self, path: str = "/console/servers") -> Page:
        """Do the whole sign-in. Returns the answer to the provider's redirect."""
        return await self.get(await self.come_back(await self.begin(path)))

    async def _ask(self, verb: str, url: str, headers: dict[str, str], fields: dict[str, str] | None) -> Page:
        headers = {"accept": "text/html", "cookie": "; ".join(f"{k}={v}" for k, v in self.cookies.items()), **headers}
        url = self.base + url if url.startswith("/") else url
        async with (
            aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar()) as session,
            session.request(
                verb, URL(url, encoded=True), headers=headers, data=fields, allow_redirects=False
            ) as answer,
        ):
            lines = answer.headers.getall("set-cookie", [])
            self._take(lines)
            text = await answer.text()
            location = answer.headers.get("location", "")
            return Page(answer.status, text, location, lines, {k.lower(): v for k, v in answer.headers.items()})

    def _take(self, lines: list[str]) -> None:
        for line in lines:
            name, _, value = line.partition(";")[0].partition("=")
            if value:
                self.cookies[name] = value
            else:
                self.cookies.pop(name, None)


async def is_turned_away(browser: BareBrowser, answer: Page) -> bool:
    """Whether an answer explains a refusal, and the browser has no session."""
    alerted = 'role="alert"' in answer.text
    return alerted and not browser.has_session and (await browser.get("/console/servers")).status == 303


def parameters(url: str) -> dict[str, str]:
    """Parameters in the query of a URL."""
    return dict(parse_qsl(urlsplit(url).query))


def alter_url(url: str, **changes: str | None) -> str:
    """The URL with replaced parameters; those that are None are removed."""
    fields = {name: value for name, value in {**parameters(url), **changes}.items() if value is not None}
    return f"{url.partition('?')[0]}?{urlencode(fields)}"
