"""Fetches the metadata of issuers, with a timeout and a size limit and without following redirects."""

from __future__ import annotations

import asyncio
import ssl
from typing import Final, TypeVar
from urllib.parse import urlsplit, urlunsplit

import aiohttp
import msgspec

from fairlead_gateway.identity.issuers_file import Issuer

FETCH_SECONDS: Final = 5.0
MAX_BYTES: Final = 512 << 10


class IssuerAway(Exception):
    """The issuer cannot be reached, or its response is not valid. The message is one sentence."""


class IssuerMetadata(msgspec.Struct, frozen=True):
    """Members that all metadata documents have (OpenID Connect Discovery 1.0 section 3, RFC 8414 section 2)."""

    issuer: str


Document = TypeVar("Document")
Metadata = TypeVar("Metadata", bound=IssuerMetadata)


def certificates_of(issuer: Issuer) -> ssl.SSLContext | bool:
    """TLS context that verifies the issuer's certificate; True for the system's CAs. Raises OSError, ssl.SSLError."""
    return ssl.create_default_context(cafile=issuer.ca_file) if issuer.ca_file else True


def failure_of(error: Exception) -> str:
    """Describe for a message why a request failed."""
    return "no response in time" if isinstance(error, TimeoutError) else str(error) or type(error).__name__


async def body_of(response: aiohttp.ClientResponse, url: str, limit: int = MAX_BYTES) -> bytes:
    """Read the body of a response. Raises IssuerAway if it has more than `limit` bytes."""
    data = bytearray()
    async for piece in response.content.iter_any():
        data += piece
        if len(data) > limit:
            raise IssuerAway(f"{url} returned more than {limit} bytes")
    return bytes(data)


def decode(data: bytes, url: str, kind: type[Document]) -> Document:
    """Decode a JSON document from `url`. Raises IssuerAway."""
    try:
        return msgspec.json.decode(data, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise IssuerAway(f"{url} returned an unexpected document: {error}") from None


async def fetch(
    session: aiohttp.ClientSession, url: str, verify: ssl.SSLContext | bool, kind: type[Document]
) -> Document:
    """Fetch and decode a JSON document. Raises IssuerAway, TimeoutError, OSError and aiohttp.ClientError."""
    # asyncio's timeout, since aiohttp's `total` loses a cancellation that arrives as the time is up
    async with asyncio.timeout(FETCH_SECONDS), session.get(url, ssl=verify, allow_redirects=False) as response:
        if response.status != 200:
            raise IssuerAway(f"{url} returned status {response.status}")
        return decode(await body_of(response, url), url, kind)


async def discover(
    session: aiohttp.ClientSession, issuer: Issuer, verify: ssl.SSLContext | bool, kind: type[Metadata]
) -> tuple[str, Metadata]:
    """Find the issuer's metadata; returns its URL and content. OpenID Connect Discovery 1.0 (section 4) is tried before
    RFC 8414 (section 3). Raises the errors of `fetch`.
    """
    parts = urlsplit(issuer.issuer)
    path = parts.path.rstrip("/")
    paths = (path + "/.well-known/openid-configuration", "/.well-known/oauth-authorization-server" + path)
    failure: IssuerAway | None = None
    for metadata_path in paths:
        url = urlunsplit((parts.scheme, parts.netloc, metadata_path, "", ""))
        try:
            document = await fetch(session, url, verify, kind)
        except IssuerAway as error:
            failure = failure or error
            continue
        if document.issuer != issuer.issuer:
            raise IssuerAway(f"{url} is the metadata of another issuer, {document.issuer[:200]!r}")
        return url, document
    raise failure or IssuerAway(f"no metadata of {issuer.issuer} was found")
