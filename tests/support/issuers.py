"""The parts of an OpenID provider that a resource server needs: a discovery document, rotating keys, tokens.

async with issuing() as issuer:
    token = issuer.token(aud="https://tools.example.com", azp="npc")
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import json
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final

from joserfc import jwt
from joserfc.jwk import ECKey, Key, OctKey, RSAKey

from fairlead_app.authentication import build_trust
from fairlead_app.gateway import Gateway
from fairlead_app.settings import Settings
from gatewayworld import Wire, modern
from rawserver import RawServer, Reply, Request, raw_server

DISCOVERY = "/.well-known/openid-configuration"
JWKS = "/jwks"
HERE = "https://tools.example.com"
"""URL of the gateway, the audience of the tokens."""
_KEYS: Final = 8
"""Keys of a test process. Issuers take turns with them: a new key takes 45 ms of a core."""
_issuers = itertools.count()


@functools.cache
def _first_key(number: int) -> RSAKey:
    return RSAKey.generate_key(2048, {"kid": "first", "use": "sig"})


class LocalIssuer:
    """With `away`, it answers 503 to every request. `asked` counts requests for keys, which are at `keys_at`."""

    def __init__(self) -> None:
        self.url = ""
        self.away = False
        self.keys_at = ""
        self.key_requests = 0
        self.keys: list[Key] = [_first_key(next(_issuers) % _KEYS)]

    async def handle(self, request: Request, reply: Reply) -> None:
        if self.away:
            reply.send(503)
        elif request.path == DISCOVERY:
            reply.send(200, json.dumps({"issuer": self.url, "jwks_uri": self.keys_at or self.url + JWKS}).encode())
        elif request.path == JWKS:
            self.key_requests += 1
            reply.send(200, json.dumps({"keys": [key.as_dict(private=False) for key in self.keys]}).encode())
        else:
            reply.send(404)

    def rotate(self, kid: str) -> None:
        """Replace all keys by a new one."""
        self.keys = [ECKey.generate_key("P-256", {"kid": kid, "use": "sig"})]

    def claims(self, **more: Any) -> dict[str, Any]:
        """Claims of a valid token, with some replaced, or removed (None)."""
        now = int(time.time())
        told = {"iss": self.url, "sub": "somebody", "azp": "npc", "iat": now, "exp": now + 300, **more}
        return {name: value for name, value in told.items() if value is not None}

    def token(self, header: dict[str, Any] | None = None, key: Key | OctKey | None = None, **claims: Any) -> str:
        """A token, signed with the first key by default."""
        signer = key or self.keys[0]
        kind = {"RSA": "RS256", "EC": "ES256", "OKP": "EdDSA", "oct": "HS256"}[signer.key_type]
        members = {"alg": kind, "kid": self.keys[0].kid, "typ": "JWT", **(header or {})}
        members = {name: value for name, value in members.items() if value is not None}
        return jwt.encode(members, self.claims(**claims), signer, algorithms=[members["alg"]])


@contextlib.asynccontextmanager
async def issuing() -> AsyncIterator[LocalIssuer]:
    issuer = LocalIssuer()
    async with raw_server(issuer.handle) as server:
        issuer.url = _origin(server)
        yield issuer


def _origin(server: RawServer) -> str:
    return server.url.rsplit("/", 1)[0]


def settings_with_issuer(
    folder: Path, issuer: LocalIssuer, *, scopes: tuple[str, ...] = (), **more: Any
) -> dict[str, Any]:
    """Settings of a gateway at HERE that accepts the tokens of an issuer."""
    file = folder / "identity.yaml"
    file.write_text(json.dumps({"issuers": [{"issuer": issuer.url, **more}], "scopes": scopes}))
    settings: dict[str, Any] = {"identity": file, "public_url": HERE}
    return {**settings, "trust": build_trust(Settings.of(**settings))}


async def status(gateway: Gateway, token: str, target: str = "/mcp") -> int:
    """Status of the answer to `tools/list` with a token."""
    async with await Wire.connect(gateway) as wire:
        return (await wire.ask(modern("tools/list").to(target).with_headers(authorization=f"Bearer {token}"))).status
