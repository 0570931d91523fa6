"""Validates the resource that a client requests (RFC 8707): the gateway's URL, or a URL below it. No I/O."""

from __future__ import annotations

from typing import Final
from urllib.parse import SplitResult, urlsplit

from fairlead_gateway.identity.request_authentication import PLAIN_PATH

MAX_RESOURCE: Final = 1_024
_PORTS: Final = {"https": 443, "http": 80}


def canonical_resource(resource: str, base: str) -> str | None:
    """Canonical form of a resource for comparisons: scheme and host in lower case, without default port and trailing
    slash.

    `base` is the gateway's public URL. None if the resource is not `base` or below it, or has user, query, fragment,
    percent-encoding or dot segments (MCP 2025-11-25, Authorization, "Canonical Server URI").
    """
    if len(resource) > MAX_RESOURCE or not (resource.isascii() and resource.isprintable()) or "\\" in resource:
        return None
    try:
        url, base_url = urlsplit(resource), urlsplit(base)
        is_same_origin = _origin(url) == _origin(base_url)
    except ValueError:
        return None
    if not is_same_origin or "@" in url.netloc or "?" in resource or "#" in resource:
        return None
    path, root = url.path.rstrip("/"), base_url.path.rstrip("/")
    is_below = path == root or path.startswith(root + "/")
    has_dot_segments = any(set(segment) <= {"."} and segment for segment in path.split("/"))
    if not is_below or has_dot_segments or PLAIN_PATH.fullmatch(path) is None:
        return None
    return f"{base.rstrip('/')}{path.removeprefix(root)}"


def _origin(url: SplitResult) -> tuple[str, str, int | None]:
    return url.scheme, url.hostname or "", url.port or _PORTS.get(url.scheme)
