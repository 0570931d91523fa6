"""An authorization server at which users consent, and a server that accepts only its tokens: real HTTP on 127.0.0.1.

    async with consent_world() as world:
        grant, token = await world.sign_in("alice")
        token = await world.source.obtain(world.person("alice"))

`ConsentIssuer` registers clients (RFC 7591), accepts only PKCE with S256, sends `iss`, rotates refresh tokens, ends a
consent whose refresh token it sees twice, and revokes tokens (RFC 7009). It records all requests. Tests may replace
members of the published `metadata` (None: absent), and the next answers of an endpoint (`answer`).
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import hashlib
import json
import secrets
import time
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import parse_qsl, unquote_plus, urlsplit

from fairlead_api.documents.catalog import Credential
from fairlead_api.documents.oauth import USER_CONSENT, OAuthSettings
from fairlead_mcp.oauth.access_token import AccessToken
from fairlead_mcp.oauth.challenge import Challenge
from fairlead_mcp.oauth.consent import UNKNOWN_CODE, Authorization, ConsentFlow
from fairlead_mcp.oauth.memory_grants import MemoryGrants
from fairlead_mcp.oauth.stored_grant import GrantKey, GrantStoreError, StoredGrant, UnreadableGrant, VersionedGrant
from fairlead_mcp.oauth.subject import TokenSubject
from fairlead_mcp.oauth.token_source import TokenSource
from rawserver import Reply, Request, raw_server
from tokenendpoint import token_access
from virtualtime import HandClock

CALLBACK: Final = "http://127.0.0.1:7007/sign-in/callback"
SERVER: Final = "default/box"
_SERVER_METADATA: Final = "/.well-known/oauth-authorization-server"
_RESOURCE_METADATA: Final = "/.well-known/oauth-protected-resource"


@dataclass
class Consent:
    """Access that a user granted to a client, with the valid refresh token."""

    person: str
    client: str
    scope: str
    resource: str
    refresh: str = ""
    ended: bool = False


class ConsentIssuer:
    """The authorization server. Tests may change or inspect every attribute."""

    def __init__(self) -> None:
        self.url = ""
        self.person = "alice"
        """User of the browser."""
        self.metadata: dict[str, Any] = {}
        self.answer: dict[str, Callable[[Request, Reply], bool]] = {}
        """By path: functions that answer in place of the endpoint if they return True."""
        self.hold: asyncio.Event | None = None
        """Event that token requests wait for, after they have been processed."""
        self.rotates = True
        self.gives_refresh = True
        self.token_members: dict[str, Any] = {}
        """Members that replace those of the next answers of the token endpoint."""
        self.registration: dict[str, Any] = {}
        """Members that replace those of the next registrations."""
        self.redirect: dict[str, str | None] = {}
        """Parameters that replace those of the redirect back; None removes one."""
        self.clients: dict[str, dict[str, Any]] = {}
        self.codes: dict[str, dict[str, str]] = {}
        self.consents: list[Consent] = []
        self.forgives = False
        """Whether it accepts a refresh token that was rotated, as many servers do for some seconds."""
        self.spent: dict[str, Consent] = {}
        """Consents by rotated refresh token."""
        self.received: list[Request] = []
        self.authorizations: list[dict[str, str]] = []
        self.registrations: list[dict[str, Any]] = []
        self.token_requests: list[dict[str, str]] = []
        self.revoked: list[str] = []
        self.arrived = asyncio.Event()
        """Set with each token request."""

    def register(self, client_id: str = "", **members: Any) -> str:
        """A client that is registered by hand; its id."""
        client_id = client_id or f"client-{len(self.clients)}"
        self.clients[client_id] = {"token_endpoint_auth_method": "none", "redirect_uris": [CALLBACK], **members}
        return client_id

    def consent_of(self, person: str) -> Consent:
        """The last consent of a user."""
        return next(consent for consent in reversed(self.consents) if consent.person == person)

    @property
    def redemptions(self) -> list[dict[str, str]]:
        """Token requests with a code that could have succeeded."""
        return [form for form in self.requests_of("authorization_code") if form["code"] != UNKNOWN_CODE]

    def requests_of(self, grant_type: str) -> list[dict[str, str]]:
        """Token requests with one grant type."""
        return [form for form in self.token_requests if form["grant_type"] == grant_type]

    def browse(self, url: str) -> dict[str, str]:
        """Consent as `person` at the authorization URL. Returns the parameters of the browser's redirect back."""
        parts = urlsplit(url)
        fields = dict(parse_qsl(parts.query))
        assert len(fields) == len(parse_qsl(parts.query)), "a parameter was sent twice"
        self.authorizations.append(fields)
        client = self.clients.get(fields["client_id"])
        assert client is not None, "the client is unknown"
        assert fields["redirect_uri"] in client["redirect_uris"]
        assert (fields["response_type"], fields["code_challenge_method"]) == ("code", "S256")
        code = secrets.token_urlsafe(12)
        self.codes[code] = {**fields, "person": self.person}
        answer = {"code": code, "state": fields["state"], "iss": self.url, **self.redirect}
        return {name: value for name, value in answer.items() if value is not None}

    async def handle(self, request: Request, reply: Reply) -> None:
        self.received.append(request)
        path = request.path.partition("?")[0]
        if path in self.answer and self.answer[path](request, reply):
            return
        if path == _SERVER_METADATA:
            self._json(reply, 200, self._metadata())
        elif path == "/register":
            self._register(request, reply)
        elif path == "/token":
            await self._token(request, reply)
        elif path == "/revoke":
            self._revoke(request, reply)
        else:
            reply.send(404)

    # Internals

    def _metadata(self) -> dict[str, Any]:
        members = {
            "issuer": self.url,
            "authorization_endpoint": self.url + "/authorize",
            "token_endpoint": self.url + "/token",
            "registration_endpoint": self.url + "/register",
            "revocation_endpoint": self.url + "/revoke",
            "code_challenge_methods_supported": ["S256"],
            "token_endpoint_auth_methods_supported": ["client_secret_basic", "none"],
            "authorization_response_iss_parameter_supported": True,
            **self.metadata,
        }
        return {name: value for name, value in members.items() if value is not None}

    def _register(self, request: Request, reply: Reply) -> None:
        members = json.loads(request.body)
        self.registrations.append(members)
        client_id = f"registered-{len(self.registrations)}"
        secret = {} if members["token_endpoint_auth_method"] == "none" else {"client_secret": secrets.token_urlsafe(9)}
        client = {**members, **secret, "client_id": client_id, **self.registration}
        self.clients[client["client_id"]] = client
        self._json(reply, 201, client)

    async def _token(self, request: Request, reply: Reply) -> None:
        form = dict(parse_qsl(request.body.decode()))
        self.token_requests.append(form)
        self.arrived.set()
        client = self._client(request, form)
        if client is None:
            self._json(reply, 401, {"error": "invalid_client"})
            return
        consent = self._redeem(form) if form["grant_type"] == "authorization_code" else self._refresh(form)
        if consent is None or consent.client != client:
            self._json(reply, 400, {"error": "invalid_grant", "error_description": f"not {request.body.decode()}"})
            return
        members = self._tokens(consent)
        if self.hold is not None:
            await self.hold.wait()
        self._json(reply, 200, members)

    def _client(self, request: Request, form: Mapping[str, str]) -> str | None:
        kind, _, pair = request.headers.get("authorization", "").partition(" ")
        name, secret = form.get("client_id", ""), form.get("client_secret", "")
        if kind == "Basic":
            name, _, secret = (unquote_plus(part) for part in base64.b64decode(pair).decode().partition(":"))
        client = self.clients.get(name)
        return name if client is not None and client.get("client_secret", "") == secret else None

    def _redeem(self, form: Mapping[str, str]) -> Consent | None:
        request = self.codes.pop(form["code"], None)
        digest = hashlib.sha256(form["code_verifier"].encode()).digest()
        challenge = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
        same = ("redirect_uri", "resource")
        if request is None or challenge != request["code_challenge"] or any(form[n] != request[n] for n in same):
            return None
        consent = Consent(request["person"], request["client_id"], request.get("scope", ""), request["resource"])
        self.consents.append(consent)
        return consent

    def _refresh(self, form: Mapping[str, str]) -> Consent | None:
        assert "scope" not in form
        token = form["refresh_token"]
        if token in self.spent and self.forgives:
            return self.spent[token]
        if token in self.spent:
            self.spent[token].ended = True  # another client may have the token (RFC 9700 section 4.14.2)
        return next((consent for consent in self.consents if consent.refresh == token and not consent.ended), None)

    def _tokens(self, consent: Consent) -> dict[str, Any]:
        claims = {"sub": consent.person, "aud": consent.resource, "jti": secrets.token_urlsafe(4)}
        part = base64.urlsafe_b64encode(json.dumps(claims).encode()).rstrip(b"=").decode()
        members = {"access_token": f"eyJhbGciOiJub25lIn0.{part}.none", "token_type": "Bearer", "expires_in": 300}
        if consent.scope:
            members["scope"] = consent.scope
        if self.gives_refresh and (self.rotates or not consent.refresh):
            if consent.refresh:
                self.spent[consent.refresh] = consent
            consent.refresh = f"refresh-{consent.person}-{secrets.token_urlsafe(9)}"
            members["refresh_token"] = consent.refresh
        members = {**members, **self.token_members}
        return {name: value for name, value in members.items() if value is not None}

    def _revoke(self, request: Request, reply: Reply) -> None:
        form = dict(parse_qsl(request.body.decode()))
        if self._client(request, form) is None:
            self._json(reply, 401, {"error": "invalid_client"})
            return
        self.revoked.append(form["token"])
        for consent in self.consents:
            consent.ended = consent.ended or consent.refresh == form["token"]
        reply.send(200)

    def _json(self, reply: Reply, status: int, members: dict[str, Any]) -> None:
        reply.send(status, json.dumps(members).encode())


class BentGrants(MemoryGrants):
    """A store that can fail, lose its data, and report reads."""

    def __init__(self) -> None:
        super().__init__()
        self.away = False
        self.full = False
        """Whether writes fail."""
        self.unreadable: set[GrantKey] = set()
        """Keys whose records cannot be decrypted until they are written again."""
        self.reads = 0
        self.was_read = asyncio.Event()
        """Set at each read."""
        self.hold: asyncio.Event | None = None
        """Event that the answers to reads wait for."""

    async def read(self, key: GrantKey) -> VersionedGrant | None:
        self.reads += 1
        self.was_read.set()
        if self.away:
            raise GrantStoreError("the store of sign-ins is away: try again later")
        if key in self.unreadable:
            raise UnreadableGrant("the key of this sign-in is lost: sign in again")
        stored = await super().read(key)
        if self.hold is not None:
            await self.hold.wait()
        return stored

    async def write(self, key: GrantKey, grant: StoredGrant, replaces: str | None = None) -> str | None:
        if self.away or self.full:
            raise GrantStoreError("the store of sign-ins is full: remove some")
        self.unreadable.discard(key)
        return await super().write(key, grant, replaces)


@dataclass
class ConsentWorld:
    """The issuer, the server's metadata, and Fairlead's objects for both."""

    issuer: ConsentIssuer
    server_url: str
    resource: dict[str, Any]
    """Members of the server's metadata (RFC 9728); empty if it has none."""
    clock: HandClock
    monotonic: HandClock
    store: BentGrants
    settings: OAuthSettings
    credential: Credential
    options: dict[str, Any]
    requests: list[Request]
    """Requests that the server received."""
    unauthorized: list[str]
    """The last item is the challenge in its answer to a message; if that is empty, it answers 404."""
    metadata_paths: set[str]
    """Paths that serve its metadata."""
    opened: list[TokenSource | ConsentFlow] = field(default_factory=list)

    def make_source(self, **members: Any) -> TokenSource:
        """Make a source of tokens, as in another replica. `members` are members of the settings."""
        source = TokenSource(self._settings(members), self.credential, self._access(), self.store)
        self.opened.append(source)
        return source

    def make_flow(self, **members: Any) -> ConsentFlow:
        flow = ConsentFlow(self._settings(members), self.credential, self._access(), self.store)
        self.opened.append(flow)
        return flow

    @property
    def source(self) -> TokenSource:
        """The first source of tokens."""
        return next((source for source in self.opened if isinstance(source, TokenSource)), None) or self.make_source()

    @property
    def flow(self) -> ConsentFlow:
        """The first flow."""
        return next((flow for flow in self.opened if isinstance(flow, ConsentFlow)), None) or self.make_flow()

    @property
    def challenge(self) -> Challenge:
        """The challenge of the server."""
        return Challenge(resource_metadata=self.server_url.replace("/mcp", f"{_RESOURCE_METADATA}/mcp"))

    def person(self, name: str) -> TokenSubject:
        return TokenSubject(name.encode())

    def key(self, name: str) -> GrantKey:
        return GrantKey(name.encode(), SERVER)

    async def begin(self, flow: ConsentFlow | None = None, **options: Any) -> Authorization:
        """Begin a sign-in with the server's challenge."""
        return await (flow or self.flow).begin(CALLBACK, **{"challenge": self.challenge, **options})

    async def sign_in(self, name: str, **options: Any) -> tuple[StoredGrant, AccessToken]:
        """Sign a user in, from the challenge to the stored grant."""
        self.issuer.person = name
        authorization = await self.begin(**options)
        grant, token = await self.flow.finish(authorization, self.issuer.browse(authorization.url))
        await self.store.write(self.key(name), grant)
        return grant, token

    async def grant(self, name: str) -> StoredGrant | None:
        """The stored grant."""
        stored = await self.store.read(self.key(name))
        return None if stored is None else stored.grant

    async def begin_renewal(self, name: str, source: TokenSource | None = None) -> asyncio.Future[AccessToken]:
        """Begin a renewal, and wait until its request has arrived. `answer_renewal` lets it be answered."""
        self.issuer.arrived.clear()
        self.issuer.hold = asyncio.Event()
        caller = asyncio.ensure_future((source or self.source).obtain(self.person(name)))
        await self.issuer.arrived.wait()
        return caller

    def answer_renewal(self) -> None:
        """Answer the renewal that `begin_renewal` has begun."""
        assert self.issuer.hold is not None
        self.issuer.hold.set()

    def later(self, seconds: float) -> None:
        self.clock.now += seconds
        self.monotonic.now += seconds

    def _settings(self, members: dict[str, Any]) -> OAuthSettings:
        return OAuthSettings(
            **{**{name: getattr(self.settings, name) for name in OAuthSettings.__struct_fields__}, **members}
        )

    def _access(self) -> Any:
        times = {"clock": self.clock, "monotonic": self.monotonic}
        return token_access(self.server_url, server=SERVER, **{**times, **self.options})


@contextlib.asynccontextmanager
async def consent_world(
    *, credential: Credential | None = None, options: dict[str, Any] | None = None, **members: Any
) -> AsyncIterator[ConsentWorld]:
    """`members`: members of the settings; without any, everything is discovered. `options`: members of the
    TokenAccess."""
    issuer = ConsentIssuer()
    resource: dict[str, Any] = {}
    requests: list[Request] = []

    unauthorized: list[str] = []
    metadata_paths = {f"{_RESOURCE_METADATA}/mcp", _RESOURCE_METADATA}

    async def serve(request: Request, reply: Reply) -> None:
        requests.append(request)
        if request.verb == "POST" and unauthorized:
            reply.send(401, www_authenticate=unauthorized[-1])
            return
        if request.path in metadata_paths and resource:
            reply.send(200, json.dumps(resource).encode())
        else:
            reply.send(404)

    async with raw_server(issuer.handle) as issuing, raw_server(serve) as serving:
        issuer.url = f"http://127.0.0.1:{issuing.port}"
        resource.update(resource=serving.url, authorization_servers=[issuer.url], scopes_supported=["read"])
        world = ConsentWorld(
            issuer,
            serving.url,
            resource,
            HandClock(time.time()),
            HandClock(time.monotonic()),
            BentGrants(),
            OAuthSettings(grant=USER_CONSENT, **members),
            credential or Credential(),
            options or {},
            requests,
            unauthorized,
            metadata_paths,
        )
        try:
            yield world
        finally:
            for opened in world.opened:
                await opened.aclose()
