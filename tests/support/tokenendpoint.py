"""A strict authorization server for the tokens of one MCP server: real HTTP on 127.0.0.1, in this loop.

async with token_endpoint() as provider:
    subject = provider.subject_token("alice")
    settings = provider.settings(grant=TOKEN_EXCHANGE, scopes=("read",))
    source = TokenSource(settings, provider.credential(), token_access())
    ...
    assert provider.verify(token)["sub"] == "alice"

It refuses the same as real servers: a method other than POST, a body that is not a form, client authentication other
than the client's own, repeated parameters, an assertion that is for another audience or was used before, a subject
token that is foreign, expired or for an audience other than the gateway, an explicit `requested_token_type`, and
unknown scopes, resources and audiences. With `entra` it accepts the on-behalf-of form of Microsoft Entra instead of RFC
8693. That part is a stub, written by Microsoft's documentation and never compared with Entra itself.

Keys, metadata, `away`, `token()` and `claims()` are those of `issuers.LocalIssuer`. Tests may change:

- `clients` (name to `Client`), `scopes`, `resources`, `audiences`, `strangers` (users without a grant);
- `lifetime` of tokens, `offset` of the provider's clock, `connector` (a parameter that Dex demands);
- `hold`: events for which a user's grants wait; `answer`, which replaces or alters the next answers;
- `metadata`: members that replace the published ones.

`grants` has all issued tokens, `requests` the parameters of each token request, and `tokens_by_person` counts tokens by
person.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import contextlib
import json
import ssl
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from email.utils import formatdate
from typing import Any, Final
from urllib.parse import parse_qsl, unquote_plus, urlsplit

import msgspec
from joserfc import jwt
from joserfc.errors import JoseError
from joserfc.jwk import ECKey, Key

from fairlead_api.documents.catalog import Credential
from fairlead_api.documents.oauth import CLIENT_CREDENTIALS, OAuthSettings
from fairlead_mcp.egress import Egress
from fairlead_mcp.http.dial import resolve_by_dns
from fairlead_mcp.oauth.token_access import TokenAccess
from issuers import HERE, JWKS, LocalIssuer
from rawserver import RawServer, Reply, Request, raw_server

TOKEN_PATH: Final = "/token"
CLIENT: Final = "fairlead/gateway+1"
"""Client id with characters that `client_secret_basic` has to encode (RFC 6749 section 2.3.1)."""
SECRET: Final = "s3cr3t:/+ %é"
EXCHANGE: Final = "urn:ietf:params:oauth:grant-type:token-exchange"
ON_BEHALF_OF: Final = "urn:ietf:params:oauth:grant-type:jwt-bearer"
ASSERTION: Final = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
ACCESS_TOKEN: Final = "urn:ietf:params:oauth:token-type:access_token"
_TYPES: Final = frozenset(
    f"urn:ietf:params:oauth:token-type:{name}" for name in ("access_token", "jwt", "id_token", "saml1", "saml2")
)
_METADATA: Final = (
    "/.well-known/oauth-authorization-server",
    "/.well-known/openid-configuration",
)


@dataclass
class Client:
    """Registered client: its only authentication method, and its secret or its public key."""

    method: str = "client_secret_basic"
    secret: str = SECRET
    key: Key | None = None
    algorithms: tuple[str, ...] = ("RS256", "PS256", "ES256", "Ed25519")


@dataclass(frozen=True)
class Grant:
    """An issued token, and whom it was issued to."""

    token: str
    subject: str
    """User of the token; empty for client credentials."""
    client: str
    scopes: tuple[str, ...]
    resources: tuple[str, ...]
    audiences: tuple[str, ...]


class Refused(Exception):
    """An error answer of a token endpoint (RFC 6749 section 5.2)."""

    def __init__(self, error: str, description: str = "", status: int = 400, **members: Any) -> None:
        super().__init__(error)
        self.status = status
        self.body = {"error": error, "error_description": description, **members}


@dataclass
class TokenAnswer:
    """An answer that a test may alter before it is sent. `members`: members of the JSON object."""

    status: int
    members: dict[str, Any]
    headers: dict[str, str] = field(default_factory=dict)
    raw: bytes | None = None
    """Bytes of the whole HTTP answer, instead of status and members."""


class TokenEndpoint(LocalIssuer):
    """Authorization server with one token endpoint. Tests may change its attributes."""

    def __init__(self, *, entra: bool = False) -> None:
        super().__init__()
        self.keys = [ECKey.generate_key("P-256", {"kid": "first", "use": "sig"})]
        self.entra = entra
        self.clients: dict[str, Client] = {CLIENT: Client("client_secret_post" if entra else "client_secret_basic")}
        self.scopes = {"read", "write", "admin"}
        self.resources: set[str] = set()
        """Resources for which tokens may be requested; empty: all."""
        self.audiences: set[str] = {"tools"}
        self.strangers: set[str] = set()
        """Users who get no token: with `entra` because their consent is missing, otherwise with `access_denied`."""
        self.subject_audience = HERE
        """Audience that a subject token must have: the gateway."""
        self.assertion_audiences: tuple[str, ...] = ()
        """Audiences of client assertions that it accepts; empty: only its issuer (draft-ietf-oauth-rfc7523bis)."""
        self.lifetime: Any = 300
        """`expires_in` of its answers; None leaves it out."""
        self.offset = 0.0
        """Seconds by which its clock is ahead."""
        self.connector = ""
        """Required value of the parameter `connector_id`, which Dex requires; empty: not required."""
        self.hold: dict[str, asyncio.Event] = {}
        """Events for which token requests wait, by user; those of client credentials by the empty name."""
        self.answer: Callable[[TokenAnswer], None] | None = None
        self.metadata: dict[str, Any] = {}
        self.metadata_paths: tuple[str, ...] = _METADATA
        """Paths that serve its metadata."""
        self.metadata_status = 404
        """Status of answers to requests for other paths."""
        self.grants: list[Grant] = []
        self.requests: list[list[tuple[str, str]]] = []
        self.received: list[Request] = []
        """All requests, including those for metadata."""
        self.arrived = asyncio.Event()
        """Set with each token request."""
        self.server: RawServer | None = None
        self._jtis: set[str] = set()

    @property
    def tokens_by_person(self) -> Counter[str]:
        """Number of tokens by person."""
        return Counter(grant.subject for grant in self.grants)

    @property
    def token_url(self) -> str:
        return self.url + TOKEN_PATH

    def subject_token(self, person: str, **claims: Any) -> str:
        """A user's token for the gateway, signed by this provider."""
        return self.token(**{"sub": person, "aud": self.subject_audience, **claims})

    def settings(self, grant: str = CLIENT_CREDENTIALS, **members: Any) -> OAuthSettings:
        """Settings of a server whose client is CLIENT, with the token URL unless an issuer is given."""
        client = self.clients[CLIENT]
        where = {} if "issuer" in members else {"token_url": self.token_url}
        return OAuthSettings(
            grant=grant, **{"client_id": CLIENT, "client_authentication": client.method, **where, **members}
        )

    def credential(self) -> Credential:
        """Credential with the secret of CLIENT."""
        return Credential(client_secret=self.clients[CLIENT].secret)

    def verify(self, token: str, audience: str = "") -> Mapping[str, Any]:
        """Verify a token of this provider as a server does, and return its claims. Raises ValueError."""
        try:
            claims = jwt.decode(token, self.keys[0], algorithms=["ES256", "RS256"]).claims
        except JoseError as error:
            raise ValueError("the token is not of this provider") from error
        if claims["exp"] <= time.time() + self.offset:
            raise ValueError("the token has expired")
        if audience and audience not in claims["aud"]:
            raise ValueError(f"the token is for {claims['aud']}")
        return claims

    async def handle(self, request: Request, reply: Reply) -> None:
        self.received.append(request)
        path = request.path.partition("?")[0]
        if self.away:
            reply.send(503)
        elif path in self.metadata_paths:
            self._send(reply, TokenAnswer(200, self._metadata()))
        elif path == urlsplit(self.token_url).path:
            answer = await self._answer(request)
            if self.answer is not None:
                self.answer(answer)
            self._send(reply, answer)
        elif path == JWKS:
            await super().handle(request, reply)
        else:
            reply.send(self.metadata_status)

    # Inside

    def _metadata(self) -> dict[str, Any]:
        members = {
            "issuer": self.url,
            "jwks_uri": self.url + "/jwks",
            "token_endpoint": self.token_url,
            "response_types_supported": ["code"],
            "token_endpoint_auth_methods_supported": sorted({client.method for client in self.clients.values()}),
            **self.metadata,
        }
        return {name: value for name, value in members.items() if value is not None}

    def _send(self, reply: Reply, answer: TokenAnswer) -> None:
        if answer.raw is not None:
            reply.raw(answer.raw)
        else:
            date = formatdate(time.time() + self.offset, usegmt=True)
            reply.send(answer.status, json.dumps(answer.members).encode(), **{"date": date, **answer.headers})

    async def _answer(self, request: Request) -> TokenAnswer:
        try:
            return await self._grant(request)
        except Refused as refused:
            headers = {"www_authenticate": "Basic"} if refused.status == 401 else {}
            return TokenAnswer(refused.status, refused.body, headers)

    async def _grant(self, request: Request) -> TokenAnswer:
        pairs = self._form(request)
        self.requests.append(pairs)
        self.arrived.set()
        parameters = dict(pairs)
        name = self._authenticate(request, parameters)
        kind = parameters.get("grant_type", "")
        if kind == "client_credentials":
            if "subject_token" in parameters or "assertion" in parameters:
                raise Refused("invalid_request", "client credentials have no subject")
            subject, ends = "", float("inf")
        elif kind == (ON_BEHALF_OF if self.entra else EXCHANGE):
            subject, ends = self._on_behalf_of(parameters) if self.entra else self._exchange(parameters)
        else:
            raise Refused("unsupported_grant_type", f"the grant {kind[:80]!r} is unknown")
        if subject in self.hold:
            await self.hold[subject].wait()
        if subject in self.strangers:
            raise self._stranger(subject)
        return self._token(name, subject, pairs, ends)

    def _form(self, request: Request) -> list[tuple[str, str]]:
        if request.verb != "POST":
            raise Refused("invalid_request", "the method must be POST", 405)
        if request.headers.get("content-type", "").partition(";")[0] != "application/x-www-form-urlencoded":
            raise Refused("invalid_request", "the body must be a form")
        pairs = parse_qsl(request.body.decode(), keep_blank_values=True, strict_parsing=True)
        names = Counter(name for name, _ in pairs)
        twice = [name for name, count in names.items() if count > 1 and name not in ("resource", "audience")]
        if twice:
            raise Refused("invalid_request", f"the parameter {twice[0]} was sent twice")
        if any(not value for _, value in pairs):
            raise Refused("invalid_request", "a parameter is empty")
        return pairs

    # Client authentication

    def _authenticate(self, request: Request, parameters: dict[str, str]) -> str:
        """Name of the client. Raises Refused unless the request has the client's own method and no other."""
        scheme, _, pair = request.headers.get("authorization", "").partition(" ")
        used = {
            "client_secret_basic": bool(scheme),
            "client_secret_post": "client_secret" in parameters,
            "private_key_jwt": "client_assertion" in parameters,
        }
        methods = [method for method, present in used.items() if present] or ["none"]
        if len(methods) > 1:
            raise Refused("invalid_request", "more than one client authentication was used")
        name, secret = parameters.get("client_id", ""), parameters.get("client_secret", "")
        if methods[0] == "client_secret_basic":
            name, secret = self._basic(scheme, pair)
        elif methods[0] == "private_key_jwt":
            name = self._client_of_assertion(parameters)
        client = self.clients.get(name)
        if client is None or client.method != methods[0]:
            raise Refused("invalid_client", f"no client {name[:40]} authenticates by {methods[0]}", 401)
        if "secret" in client.method and secret != client.secret:
            raise Refused("invalid_client", "the secret is wrong", 401, **self._codes(7000215))
        return name

    def _basic(self, scheme: str, pair: str) -> tuple[str, str]:
        try:
            name, colon, secret = base64.b64decode(pair, validate=True).decode("ascii").partition(":")
        except (binascii.Error, UnicodeDecodeError):
            scheme = colon = name = secret = ""
        if scheme != "Basic" or not colon:
            raise Refused("invalid_client", "the header Authorization is not Basic", 401)
        return unquote_plus(name), unquote_plus(secret)

    def _client_of_assertion(self, parameters: dict[str, str]) -> str:
        """Name of the client in a client assertion (RFC 7523 section 3)."""
        if parameters.get("client_assertion_type") != ASSERTION:
            raise Refused("invalid_client", "the client_assertion_type is unknown", 401)
        assertion = parameters["client_assertion"]
        name = _claims(assertion).get("sub", "")
        client = self.clients.get(name) if isinstance(name, str) else None
        if client is None or client.key is None:
            raise Refused("invalid_client", "the subject of the assertion has no key", 401)
        try:
            claims = jwt.decode(assertion, client.key, algorithms=list(client.algorithms)).claims
        except (JoseError, ValueError) as error:
            raise Refused("invalid_client", "the signature of the assertion is wrong", 401) from error
        now = time.time() + self.offset
        allowed = self.assertion_audiences or (self.url,)
        reason = (
            "its iss is not the client"
            if claims.get("iss") != name or parameters.get("client_id", name) != name
            else "its aud is not this server alone"
            if claims.get("aud") not in allowed
            else "it is not valid now"
            if not now - 5 < claims.get("exp", 0) <= now + 65
            else "it has no jti, or was used before"
            if not claims.get("jti") or claims["jti"] in self._jtis
            else ""
        )
        if reason:
            raise Refused("invalid_client", f"the assertion is refused: {reason}", 401)
        self._jtis.add(claims["jti"])
        return str(name)

    # Users

    def _exchange(self, parameters: dict[str, str]) -> tuple[str, float]:
        """User of a subject token, and the token's expiry (RFC 8693 section 2.1)."""
        if "subject_token" not in parameters or parameters.get("subject_token_type") not in _TYPES:
            raise Refused("invalid_request", "subject_token and a known subject_token_type are required")
        if "requested_token_type" in parameters:
            raise Refused("invalid_request", "requested_token_type cannot be chosen")
        if "actor_token" in parameters or "assertion" in parameters:
            raise Refused("invalid_request", "actor_token and assertion are not supported")
        if self.connector and parameters.get("connector_id") != self.connector:
            raise Refused("invalid_request", "connector_id is required")
        return self._person(parameters["subject_token"], "invalid_request")

    def _on_behalf_of(self, parameters: dict[str, str]) -> tuple[str, float]:
        """User of an assertion in the form of Microsoft Entra, and the assertion's expiry. A stub."""
        if parameters.get("requested_token_use") != "on_behalf_of" or "assertion" not in parameters:
            raise Refused("invalid_request", "AADSTS900144: a parameter is missing", **self._codes(900144))
        if "resource" in parameters or "audience" in parameters:
            text = "AADSTS901002: The 'resource' request parameter is not supported."
            raise Refused("invalid_request", text, **self._codes(901002))
        if "client_id" not in parameters or "scope" not in parameters:
            raise Refused("invalid_request", "AADSTS900144: client_id and scope are required", **self._codes(900144))
        return self._person(parameters["assertion"], "invalid_grant")

    def _person(self, token: str, error: str) -> tuple[str, float]:
        try:
            claims = jwt.decode(token, self.keys[0], algorithms=["ES256", "RS256"]).claims
        except (JoseError, ValueError) as cause:
            text = "AADSTS50013: Assertion failed signature validation."
            raise Refused(
                error, text if self.entra else "the subject token is foreign", **self._codes(50013)
            ) from cause
        audience = claims.get("aud")
        if self.subject_audience not in (audience if isinstance(audience, list) else [audience]):
            text = "AADSTS500131: Assertion audience does not match the Client app."
            raise Refused(error, text if self.entra else "the audience is wrong", **self._codes(500131))
        if claims.get("exp", 0) <= time.time() + self.offset:
            raise Refused(error, "the subject token has expired", **self._codes(500133))
        if not claims.get("sub"):
            raise Refused(error, "the subject token has no person")
        return str(claims["sub"]), float(claims["exp"])

    def _stranger(self, person: str) -> Refused:
        if not self.entra:
            return Refused("access_denied", f"{person} has no access")
        text = f"AADSTS65001: The user {person} has not consented.\r\nTrace ID: 0000"
        claims = '{"access_token":{"polids":{"essential":true,"values":["1"]}}}'
        return Refused("interaction_required", text, claims=claims, suberror="consent_required", **self._codes(65001))

    def _codes(self, code: int) -> dict[str, Any]:
        return {"error_codes": [code]} if self.entra else {}

    # Tokens

    def _token(self, client: str, subject: str, pairs: list[tuple[str, str]], ends: float) -> TokenAnswer:
        parameters = dict(pairs)
        resources = tuple(value for name, value in pairs if name == "resource")
        audiences = tuple(value for name, value in pairs if name == "audience")
        if (self.resources and set(resources) - self.resources) or any("#" in each for each in resources):
            raise Refused("invalid_target", "the resource is unknown")
        if set(audiences) - self.audiences:
            raise Refused("invalid_target", "the audience is unknown")
        scopes = parameters.get("scope", "").split(" ") if "scope" in parameters else []
        unknown = [scope for scope in scopes if scope.removesuffix("/.default") not in {*self.scopes, "api://tools"}]
        if unknown:
            raise Refused("invalid_scope", f"{unknown[0]} is unknown", **self._codes(70011))
        now = int(time.time() + self.offset)
        lifetime = self.lifetime if isinstance(self.lifetime, int) and self.lifetime > 0 else 300
        token = self.token(
            sub=subject or client,
            aud=[*resources, *audiences] or "tools",
            client_id=client,
            scope=" ".join(scopes),
            jti=f"{len(self.grants)}",
            iat=now,
            exp=now + lifetime,
        )
        self.grants.append(Grant(token, subject, client, tuple(scopes), resources, audiences))
        members: dict[str, Any] = {"access_token": token, "token_type": "Bearer", "expires_in": self.lifetime}
        if not self.entra and subject:
            members["issued_token_type"] = ACCESS_TOKEN
        if scopes:
            members["scope"] = " ".join(scopes)
        return TokenAnswer(200, {name: value for name, value in members.items() if value is not None})


def _claims(token: str) -> dict[str, Any]:
    """Claims of a JWT, without verification; empty if the token is not a JWT."""
    try:
        part = token.split(".")[1]
        claims = msgspec.json.decode(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))
    except (IndexError, ValueError):
        return {}
    return claims if isinstance(claims, dict) else {}


def token_access(server_url: str = "http://127.0.0.1:9/mcp", **members: Any) -> TokenAccess:
    """TokenAccess of a laptop, whose egress rules allow loopback addresses."""
    resolve = Egress().guard(resolve_by_dns, "default")
    return TokenAccess(**{"server_url": server_url, "resolve": resolve, **members})


@contextlib.asynccontextmanager
async def token_endpoint(*, entra: bool = False, tls: ssl.SSLContext | None = None) -> AsyncIterator[TokenEndpoint]:
    """A provider on a free port. With `tls`, it serves https."""
    provider = TokenEndpoint(entra=entra)
    async with raw_server(provider.handle, tls=tls) as server:
        provider.server = server
        provider.url = f"{'http' if tls is None else 'https'}://127.0.0.1:{server.port}"
        yield provider
