"""A gateway whose servers get an access token per call from a strict provider, and its callers.

async with token_endpoint() as provider, protected_server(provider) as (protected, server):
    async with exchanging(tmp_path, provider, oauth_catalog(provider, "box", server.url)) as gateway:
        assert text_of(await ask(gateway, of(provider, "alice", calling("box__whoami")))) == "alice"
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec

from fairlead_api.documents.catalog import Catalog, CredentialRef
from fairlead_api.documents.oauth import TOKEN_EXCHANGE
from fairlead_app.gateway import Gateway
from gatewayworld import Answer, Ask, catalog, running
from issuers import settings_with_issuer
from tokenendpoint import TokenEndpoint

CLIENT_FILE = "client"


def oauth_catalog(
    provider: TokenEndpoint,
    name: str,
    url: str,
    tools: Any = ("whoami",),
    *,
    oauth: dict[str, Any] | None = None,
    **more: Any,
) -> Catalog:
    """Catalog of a server whose calls use tokens of the provider, by token exchange unless `oauth` names another
    grant.
    """
    settings = provider.settings(**{"grant": TOKEN_EXCHANGE, "scopes": ("read",), **(oauth or {})})
    ref = CredentialRef(secret=CLIENT_FILE, key="client", hash=str(more.pop("hash", "1")))
    return catalog(name, url, tools, oauth=settings, credential=ref, **more)


@contextlib.asynccontextmanager
async def exchanging(
    folder: Path, provider: TokenEndpoint, *catalogs: Catalog, **settings: Any
) -> AsyncIterator[Gateway]:
    """A gateway that accepts the provider's tokens, may send them to its token URL, and has the client's secret."""
    credentials = folder / "credentials"
    credentials.mkdir(exist_ok=True)
    (credentials / f"{CLIENT_FILE}.json").write_bytes(msgspec.json.encode(provider.credential()))
    trusted = settings_with_issuer(folder, provider, algorithms=["ES256"])
    allowed = {"token_exchange_allowed": (provider.token_url,)}
    async with running(folder, *catalogs, **{**trusted, **allowed, **settings}) as gateway:
        yield gateway


def of(provider: TokenEndpoint, person: str, ask: Ask, **claims: Any) -> Ask:
    """The request with a new token of a user."""
    return ask.with_headers(authorization=f"Bearer {provider.subject_token(person, **claims)}")


def text_of(answer: Answer) -> str:
    """Text of a tool's result, also if it is the last message of an event stream."""
    message = answer.events[-1] if answer.headers.get("content-type", "").startswith("text/event") else answer.message
    return str(message["result"]["content"][0]["text"])
