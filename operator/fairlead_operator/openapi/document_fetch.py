"""Fetches OpenAPI documents over HTTP, without credentials, and only from addresses that egress rules allow.

Redirects are followed, because hosts of documents redirect to their file servers. Each target is checked like the first
URL.
"""

from __future__ import annotations

import ssl as tls
import time
from dataclasses import dataclass
from typing import Final
from urllib.parse import urljoin

from fairlead_mcp.errors import HttpRefused
from fairlead_mcp.http.answer import Answer
from fairlead_mcp.http.dial import Resolve
from fairlead_mcp.http.pool import Pool
from fairlead_mcp.http.reading import looks_like_html, plain_address
from fairlead_mcp.http.target import Target
from fairlead_mcp.oauth.token_access import MakeTls, load_tls
from fairlead_openapi.compiling.reading import ACCEPTED_TYPES, MAX_DOCUMENT_BYTES, MAX_REDIRECTS

FETCH_SECONDS: Final = 30.0
"""Time limit of all requests for a document."""
CONNECT_SECONDS: Final = 5.0
_HEADERS: Final = {"User-Agent": "fairlead"}
_ACCEPT: Final = b"Accept: %b\r\n" % ACCEPTED_TYPES.encode()
_OK: Final = 200
_NOT_MODIFIED: Final = 304
_MCP_SERVER_STATUSES: Final = (400, 405, 406, 415)
"""Statuses with which MCP servers answer a GET that does not accept their stream of events."""
_MCP_REASONS: Final = ("NotFound", "MethodNotAllowed", "NotAcceptable", "UnsupportedMediaType", "MisdirectedRequest")
"""Reasons of HttpRefused that mean that a server does not speak MCP. They do not apply to the host of a document."""
_REDIRECTS: Final = (301, 302, 303, 307, 308)


@dataclass(frozen=True)
class DocumentVersion:
    """A version of a document."""

    data: bytes
    url: str = ""
    """URL to which the last redirect led; empty for a document that is not at a URL."""
    etag: bytes = b""
    """Tag of this version (`ETag`, RFC 9110 section 8.8.3); empty if the host sends none."""


async def fetch_document(
    url: str, resolve: Resolve, *, etag: bytes = b"", make_tls: MakeTls = load_tls
) -> DocumentVersion | None:
    """Fetch the document at `url`; None if it still has this `etag`.

    `resolve` must apply the egress rules. Raises McpError.
    """
    status, deadline = 0, time.monotonic() + FETCH_SECONDS
    for _ in range(MAX_REDIRECTS + 1):
        target = Target.from_url(url)
        answer = await _get(target, resolve, etag, await make_tls(None) if target.tls else None, deadline)
        status = answer.status
        if answer.status == _NOT_MODIFIED and etag:
            return None
        if answer.status == _OK and not looks_like_html(answer):
            return DocumentVersion(answer.body, url, answer.headers.get(b"etag", b""))
        location = answer.headers.get(b"location", b"").decode("latin-1")
        is_downgrade = target.tls and not urljoin(url, location).startswith("https://")
        if answer.status not in _REDIRECTS or not location or is_downgrade:
            raise _refusal(url, answer)
        url = urljoin(url, location)
    raise HttpRefused(
        f"openapi.url led to {plain_address(url)} by more than {MAX_REDIRECTS} redirects: set it to the URL of the "
        "document itself",
        status=status,
    )


async def _get(target: Target, resolve: Resolve, etag: bytes, ssl: tls.SSLContext | None, deadline: float) -> Answer:
    pool = Pool(target.host, target.port, ssl=ssl, limit=1, connect_timeout=CONNECT_SECONDS, resolve=resolve)
    condition = b"If-None-Match: %b\r\n" % etag if etag else b""
    request = b"%b%b%b\r\n" % (target.head(b"GET", _HEADERS), _ACCEPT, condition)
    try:
        return await pool.exchange(request, deadline=deadline, max_bytes=MAX_DOCUMENT_BYTES)
    finally:
        await pool.aclose()


def _refusal(url: str, answer: Answer) -> HttpRefused:
    status = f"status {answer.status}"
    page = "a web page" if answer.status == _OK else f"{status} with a web page"
    content, hint = (page, " (such a page links to it)") if looks_like_html(answer) else (status, "")
    server = "; if it is an MCP server, name it as url in an mcp.json" if answer.status in _MCP_SERVER_STATUSES else ""
    error = HttpRefused(
        f"{plain_address(url)} answered {content} instead of the OpenAPI document: use the URL of the document "
        f"itself{hint}, which must be readable without a credential{server}",
        status=answer.status,
    )
    if error.reason in _MCP_REASONS:
        error.reason = HttpRefused.reason
    return error
