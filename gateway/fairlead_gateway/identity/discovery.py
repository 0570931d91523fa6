"""Documents that issuers publish about themselves, fetched within bounds of time and size and without redirects."""

from __future__ import annotations

import asyncio
import ssl
from typing import Final, TypeVar
from urllib.parse import urlsplit, urlunsplit

import aiohttp
import msgspec

from fairlead_gateway.identity.configuration import Issuer

FETCH_SECONDS: Final = 5.0
MAX_BYTES: Final = 512 << 10


class IssuerAway(Exception):
    """The issuer does not answer, or not as it should. The message is one sentence."""


class IssuerMetadata(msgspec.Struct, frozen=True):
    """Member of every metadata document (OpenID Connect Discovery 1.0 section 3, RFC 8414 section 2)."""

    issuer: str


Document = TypeVar("Document")
Metadata = TypeVar("Metadata", bound=IssuerMetadata)


def certificates_of(issuer: Issuer) -> ssl.SSLContext | bool:
    """Certificates that the issuer's own is checked with, by default the system's. Raises OSError and ssl.SSLError."""
    return ssl.create_default_context(cafile=issuer.ca_file) if issuer.ca_file else True


def failure_of(error: Exception) -> str:
    """Why a request failed, in words."""
    return "no answer in time" if isinstance(error, TimeoutError) else str(error) or type(error).__name__


async def body_of(answer: aiohttp.ClientResponse, url: str, limit: int = MAX_BYTES) -> bytes:
    """The body of an answer. Raises IssuerAway beyond `limit` bytes."""
    data = bytearray()
    async for piece in answer.content.iter_any():
        data += piece
        if len(data) > limit:
            raise IssuerAway(f"{url} answers more than {limit} bytes")
    return bytes(data)


def decode(data: bytes, url: str, kind: type[Document]) -> Document:
    """A JSON document. Raises IssuerAway."""
    try:
        return msgspec.json.decode(data, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise IssuerAway(f"{url} answers something else than expected: {error}") from None


async def fetch(
    session: aiohttp.ClientSession, url: str, verify: ssl.SSLContext | bool, kind: type[Document]
) -> Document:
    """A JSON document. Raises IssuerAway, TimeoutError, OSError and aiohttp.ClientError."""
    # not by aiohttp, whose `total` loses a cancellation that comes as the time is up
    async with asyncio.timeout(FETCH_SECONDS), session.get(url, ssl=verify, allow_redirects=False) as answer:
        if answer.status != 200:
            raise IssuerAway(f"{url} answers {answer.status}")
        return decode(await body_of(answer, url), url, kind)


async def discover(
    session: aiohttp.ClientSession, issuer: Issuer, verify: ssl.SSLContext | bool, kind: type[Metadata]
) -> tuple[str, Metadata]:
    """Address and content of the issuer's metadata: OpenID Connect Discovery 1.0 section 4, else RFC 8414 section 3.
    Raises like `fetched`.
    """
    parts = urlsplit(issuer.issuer)
    path = parts.path.rstrip("/")
    places = (path + "/.well-known/openid-configuration", "/.well-known/oauth-authorization-server" + path)
    failure: IssuerAway | None = None
    for path_of_document in places:
        url = urlunsplit((parts.scheme, parts.netloc, path_of_document, "", ""))
        try:
            document = await fetch(session, url, verify, kind)
        except IssuerAway as error:
            failure = failure or error
            continue
        if document.issuer != issuer.issuer:
            raise IssuerAway(f"{url} is the document of {document.issuer[:200]!r}, another issuer")
        return url, document
    raise failure or IssuerAway("nothing was found")
