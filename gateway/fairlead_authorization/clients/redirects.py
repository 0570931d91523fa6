"""Validates redirect URIs of clients, and matches redirect URIs of requests (RFC 6749 section 3.1.2). Pure module.

| kind | example | compared |
|---|---|---|
| web | `https://claude.ai/api/mcp/auth_callback` | as text |
| loopback (RFC 8252 section 7.3) | `http://127.0.0.1/callback` | as text without the port, which a program chooses |
| private use (RFC 8252 section 7.1) | `cursor://anysphere.cursor-mcp/oauth/callback` | as text |

`localhost` is accepted as a loopback address, because several clients use it. It does not match 127.0.0.1, nor the
other way round.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Final

from fairlead_gateway.identity.authorization_server import HOST_NAME, HOST_PORT, LOOPBACK

MAX_REDIRECT: Final = 512
"""Limit on a redirect URI in characters."""
_URI: Final = re.compile(r"(?:[A-Za-z0-9._~!$&'()*+,;=:@/?\[\]-]|%[0-9A-Fa-f]{2})+")
"""Characters of a URI without a fragment (RFC 3986); neither spaces, backslashes nor control characters."""
_LOOPBACK: Final = re.compile(rf"http://(localhost|127\.0\.0\.1|\[::1\])(?::({HOST_PORT}))?([/?].*)?")
_WEB: Final = re.compile(rf"https://((?:{HOST_NAME}|[0-9.]+|\[[0-9a-f:.]+\])(?::{HOST_PORT})?)(?:[/?].*)?")
_PRIVATE: Final = re.compile(r"([a-z][a-z0-9+.-]*):(?://([A-Za-z0-9._-]+)(?:[/?].*)?|/[^/].*)")
_FORBIDDEN_SCHEMES: Final = frozenset(
    {
        "about",
        "blob",
        "chrome",
        "content",
        "data",
        "file",
        "filesystem",
        "ftp",
        "http",
        "https",
        "intent",
        "jar",
        "javascript",
        "mailto",
        "resource",
        "search",
        "search-ms",
        "sms",
        "ssh",
        "tel",
        "vbscript",
        "view-source",
        "ws",
        "wss",
    }
)
"""Schemes that browsers or operating systems handle themselves, so that no client would receive the code."""
_FORBIDDEN_PREFIXES: Final = ("ms-", "web+", "chrome-", "moz-")


def redirect_problem(uri: str) -> str:
    """Why a client may not have a redirect URI, as the end of a sentence; empty for a valid redirect URI."""
    if not uri or len(uri) > MAX_REDIRECT or not _URI.fullmatch(uri):
        return f"has more than {MAX_REDIRECT} characters, a fragment, or characters that a URI cannot have"
    scheme = uri.partition(":")[0]
    if scheme == "http":
        return (
            "" if _LOOPBACK.fullmatch(uri) else "is http: only loopback addresses and localhost can be, else use https"
        )
    if scheme == "https":
        return "" if _WEB.fullmatch(uri) else "has no plain host name in lower case"
    if scheme in _FORBIDDEN_SCHEMES or scheme.startswith(_FORBIDDEN_PREFIXES) or not _PRIVATE.fullmatch(uri):
        return (
            "is neither https, nor http on a loopback address, nor of a client's own scheme, such as cursor://HOST/PATH"
        )
    return ""


def matches(uri: str, registered_uris: Collection[str]) -> bool:
    """Whether the redirect URI of a request is in `registered_uris`, the redirect URIs of the client."""
    if uri in registered_uris:
        return True
    without_port = _without_port(uri)
    return without_port is not None and any(_without_port(each) == without_port for each in registered_uris)


def is_loopback_redirect(uri: str) -> bool:
    """Whether a redirect URI leads to the person's own machine, where any program may listen."""
    return _LOOPBACK.fullmatch(uri) is not None


def redirect_host(uri: str) -> str:
    """Target of a redirect URI, in the form for users and for `redirectHosts`: `HOST` or `HOST:PORT`, `localhost` for
    all loopback addresses, `SCHEME://HOST` or `SCHEME:` for a client's own scheme. Empty for an unusable URI.
    """
    if redirect_problem(uri):
        return ""
    if is_loopback_redirect(uri):
        return LOOPBACK
    if web := _WEB.fullmatch(uri):
        return web[1]
    private_match = _PRIVATE.fullmatch(uri)
    assert private_match is not None, "redirect_problem accepted it"
    return f"{private_match[1]}://{private_match[2]}" if private_match[2] else f"{private_match[1]}:"


def _without_port(uri: str) -> tuple[str, str] | None:
    """Host and path of a loopback URI; an empty path becomes `/` (RFC 3986 section 6.2.3). None for any other URI."""
    match = _LOOPBACK.fullmatch(uri) if len(uri) <= MAX_REDIRECT and _URI.fullmatch(uri) else None
    if match is None or int(match[2] or 80) > 65_535:
        return None
    return match[1], match[3] or "/"
