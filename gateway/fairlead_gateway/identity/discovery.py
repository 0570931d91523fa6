"""Requests to the issuers whose tokens the gateway accepts. They have the same limits and errors as token requests
(`fairlead_mcp.oauth.token_http`). The gateway's own settings name these issuers, so no egress rules apply.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator
from functools import partial
from typing import Final, TypeVar

import msgspec

from fairlead_gateway.identity.issuers_file import Issuer
from fairlead_mcp.http.dial import resolve_by_dns
from fairlead_mcp.http.target import InvalidTarget, Target
from fairlead_mcp.oauth.discovery import find_metadata
from fairlead_mcp.oauth.errors import BAD_ANSWER, CONFIGURATION, DISCOVERY, ISSUER_MISMATCH, GrantFailed
from fairlead_mcp.oauth.metadata import well_known_urls
from fairlead_mcp.oauth.token_access import TokenAccess
from fairlead_mcp.oauth.token_http import TokenHttp

MAX_BYTES: Final = 512 << 10
"""Maximum number of bytes of a document: a key set may contain the certificates of each key."""
ANY_JSON: Final = b"application/json, */*;q=0.1"
"""`Accept` of all documents: a key set may be `application/jwk-set+json` (RFC 7517 section 8.5)."""


class IssuerMetadata(msgspec.Struct, frozen=True):
    """Members that all metadata documents have (OpenID Connect Discovery 1.0 section 3, RFC 8414 section 2)."""

    issuer: str


Document = TypeVar("Document")
Metadata = TypeVar("Metadata", bound=IssuerMetadata)


@contextlib.asynccontextmanager
async def issuer_http(issuer: Issuer, url: str) -> AsyncIterator[TokenHttp]:
    """Sender of requests to `url` of an issuer. Raises GrantFailed."""
    target = issuer_target(url)
    http = TokenHttp(target, TokenAccess("", resolve_by_dns), await _tls(issuer) if target.tls else None, "issuer")
    try:
        yield http
    finally:
        await http.aclose()


def issuer_target(url: str) -> Target:
    """Parse a URL. Raises GrantFailed."""
    try:
        return Target.from_url(url)
    except InvalidTarget as error:
        raise GrantFailed(str(error), cause=DISCOVERY) from error


def decode(data: bytes, url: str, kind: type[Document]) -> Document:
    """Decode a JSON document from `url`. Raises GrantFailed."""
    try:
        return msgspec.json.decode(data, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise GrantFailed(f"{url} returned an unexpected document: {error}", cause=BAD_ANSWER) from None


async def fetch(issuer: Issuer, url: str, kind: type[Document]) -> Document:
    """Fetch and decode a JSON document. Raises GrantFailed."""
    async with issuer_http(issuer, url) as http:
        answer = await http.get(issuer_target(url).path, accept=ANY_JSON, max_bytes=MAX_BYTES)
    if answer.status != 200:
        raise GrantFailed(f"{url} returned status {answer.status}", cause=BAD_ANSWER)
    return decode(answer.body, url, kind)


async def discover(issuer: Issuer, kind: type[Metadata]) -> tuple[str, Metadata]:
    """Find the issuer's metadata; returns its URL and content. Raises GrantFailed."""
    # the URLs of OpenID first, because only OpenID documents always name the end-session endpoint
    urls = tuple(reversed(well_known_urls(issuer.issuer)))
    async with issuer_http(issuer, issuer.issuer) as http:
        get = partial(http.get, accept=ANY_JSON, max_bytes=MAX_BYTES)
        return await find_metadata(get, issuer.issuer, urls, partial(_read, issuer, kind), "jwksUri")


def _read(issuer: Issuer, kind: type[Metadata], body: bytes, url: str) -> tuple[str, Metadata]:
    """Read metadata from a document at `url`. Raises GrantFailed."""
    document = decode(body, url, kind)
    if document.issuer != issuer.issuer:
        message = f"{url} is the metadata of another issuer, {document.issuer[:200]!r}"
        raise GrantFailed(message, cause=ISSUER_MISMATCH)
    return url, document


async def _tls(issuer: Issuer) -> ssl.SSLContext:
    """TLS context that verifies the issuer's certificate, by default by the system's CAs. Raises GrantFailed."""
    try:
        return await asyncio.to_thread(ssl.create_default_context, cafile=issuer.ca_file)
    except (OSError, ValueError) as error:
        raise GrantFailed(f"caFile {issuer.ca_file} cannot be read: {error}", cause=CONFIGURATION) from error
