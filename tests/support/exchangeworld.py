"""Users who call a server as themselves: a real provider, a protected server, and a gateway's settings for both.

    async with exchange_world(tmp_path) as world, running(tmp_path, world.catalog(), **world.settings()) as gateway:
        assert await world.who(gateway, await world.token("alice")) == "alice"

Alice and Bob have a grant for the server; Carol has none, but may call the gateway.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import msgspec

from fairlead_api.documents.catalog import Catalog, Credential, CredentialRef
from fairlead_api.documents.oauth import TOKEN_EXCHANGE, OAuthSettings
from fairlead_app.authentication import build_trust
from fairlead_app.settings import Settings
from gatewayworld import MODERN, Answer, Reachable, Wire, calling, catalog
from issuers import HERE
from jwtservers import SCOPE, PythonServer, python_server
from ports import free_port
from tokenproviders import CLIENTS, SECRET, TokenProvider, oidc_provider, private_key

ACCESS_TOKEN: Final = "urn:ietf:params:oauth:token-type:access_token"
WITH_A_GRANT: Final = ("alice", "bob")
WITHOUT: Final = "carol"


@dataclass
class ExchangeWorld:
    """The provider, the server, and the folder of the gateway's documents and credentials."""

    provider: TokenProvider
    server: PythonServer
    folder: Path
    skew: int = 0
    """Seconds by which the provider's clock is ahead."""
    tokens: dict[str, str] = field(default_factory=dict)
    """Latest token of each user."""

    async def token(self, person: str) -> str:
        """The user's token for the gateway; the same until `sign_in`."""
        if person not in self.tokens:
            await self.sign_in(person)
        return self.tokens[person]

    async def sign_in(self, person: str) -> str:
        """A new token of the user."""
        self.tokens[person] = await self.provider.sign_in(person)
        return self.tokens[person]

    def oauth(self, grant: str = TOKEN_EXCHANGE, **more: Any) -> OAuthSettings:
        """Settings of the grant at the provider, whose endpoint is discovered. Keywords replace members."""
        told: dict[str, Any] = {
            "grant": grant,
            "client_id": CLIENTS[more.get("client_authentication", "client_secret_basic")],
            "issuer": self.provider.issuer,
            "scopes": (SCOPE,),
            "resource": self.server.url,
            **more,
        }
        return OAuthSettings(**told)

    def catalog(self, name: str = "desk", *, oauth: OAuthSettings | None = None, **more: Any) -> Catalog:
        """The server's catalog, with its stored credential. `version` is the revision that the gateway uses with it."""
        oauth = oauth or self.oauth()
        reference = self.keep_credential(name, oauth)
        offered = [{"name": name, "inputSchema": {"type": "object"}} for name in ("whoami", "later")]
        return catalog(name, self.server.url, more.pop("tools", offered), oauth=oauth, credential=reference, **more)

    def keep_credential(self, name: str, oauth: OAuthSettings, secret: str = SECRET) -> CredentialRef:
        """Store the client's secret or key where the gateway reads it."""
        by_key = oauth.client_authentication == "private_key_jwt"
        credential = Credential(private_key=private_key()) if by_key else Credential(client_secret=secret)
        folder = self.folder / "credentials"
        folder.mkdir(exist_ok=True)
        data = msgspec.json.encode(credential)
        (folder / f"{name}.json").write_bytes(data)
        return CredentialRef(secret=name, key="", hash=f"{hash(data):x}")

    def settings(self, **more: Any) -> dict[str, Any]:
        """Settings of a gateway that accepts the provider's tokens, including the mapping of claims."""
        identity = identity_of(self.provider.issuer, leewaySeconds=abs(self.skew) + 10)
        settings = settings_of(self.folder, identity, **more)
        return {**settings, "trust": build_trust(Settings.of(**settings))}

    async def call(
        self, gateway: Reachable, token: str, tool: str = "desk__whoami", *, era: str = MODERN, **arguments: Any
    ) -> Answer:
        """Answer to a call with a token."""
        async with await Wire.connect(gateway) as wire:
            ask = calling(tool, arguments, era=era).with_headers(authorization=f"Bearer {token}")
            return await wire.ask(ask)

    async def who(self, gateway: Reachable, token: str, tool: str = "desk__whoami", **more: Any) -> str:
        """User for whom the server received the call."""
        return text_of(await self.call(gateway, token, tool, **more))

    def exchanges(self, person: str) -> int:
        """Number of token requests for a user, including refused ones."""
        return len([event for event in self.provider.token_events() if event.get("person") == person])


def identity_of(issuer: str, **more: Any) -> dict[str, Any]:
    """Content of an `identity.yaml` with one issuer; keywords are its members."""
    return {"issuers": [{"issuer": issuer, "agentClaims": ["client_id"], **more}]}


def settings_of(folder: Path, identity: dict[str, Any], **more: Any) -> dict[str, Any]:
    """Settings of a gateway at HERE that accepts the tokens of these issuers."""
    file = folder / "identity.yaml"
    file.write_text(json.dumps(identity))
    return {"identity": file, "public_url": HERE, **more}


def text_of(answer: Answer) -> str:
    """Text of a successful result."""
    message = answer.message if answer.body.startswith(b"{") else answer.events[-1]
    assert "result" in message, message
    result = message["result"]
    assert not result.get("isError"), result
    text: str = result["content"][0]["text"]
    return text


def complaint_of(answer: Answer) -> tuple[str, str]:
    """Code and message of a failed call."""
    result = answer.message["result"]
    assert result["isError"] is True, result
    error = result["_meta"]["fairlead.dev/error"]
    return error["code"], error["message"]


@contextlib.asynccontextmanager
async def exchange_world(
    folder: Path,
    provider: TokenProvider | None = None,
    *,
    scope: str = SCOPE,
    required: str = SCOPE,
    lifetime: int = 600,
    gateway_lifetime: int = 600,
    skew: int = 0,
) -> AsyncIterator[ExchangeWorld]:
    """`provider`: the fixture `shared_provider`, or None for a process of its own. `scope`: what the provider gives,
    `required`: what the server asks for; the others as in `oidc_provider`.
    """
    port = free_port()
    url = f"http://127.0.0.1:{port}/mcp"
    async with (
        oidc_provider(
            folder,
            gateway=HERE,
            resources=[url],
            grants={person: [url] for person in WITH_A_GRANT},
            scope=scope,
            lifetime=lifetime,
            gateway_lifetime=gateway_lifetime,
            skew=skew,
            shared=provider,
        ) as login,
        python_server(login.issuer, login.jwks_url, port=port, scope=required) as server,
    ):
        yield ExchangeWorld(login, server, folder, skew)
