"""Which resource a client asks for (RFC 8707): the gateway's URL, or one below it. No I/O."""

from __future__ import annotations

from typing import Final
from urllib.parse import SplitResult, urlsplit

from fairlead_gateway.identity.request_authentication import PLAIN_PATH

MAX_RESOURCE: Final = 1_024
_PORTS: Final = {"https": 443, "http": 80}


def canonical_resource(resource: str, base: str) -> str | None:
    """The resource as it is compared: scheme and host in lower case, without the default port and a slash at the end.

    `base` is the gateway's public URL. None if the resource is not at it or below it, or has user, query, fragment,
    percent-encoding, or segments of dots (MCP 2025-11-25, Authorization, "Canonical Server URI").
    """
    if len(resource) > MAX_RESOURCE or not (resource.isascii() and resource.isprintable()) or "\\" in resource:
        return None
    try:
        parts, own = urlsplit(resource), urlsplit(base)
        same = _origin(parts) == _origin(own)
    except ValueError:
        return None
    if not same or "@" in parts.netloc or "?" in resource or "#" in resource:
        return None
    path, root = parts.path.rstrip("/"), own.path.rstrip("/")
    below = path == root or path.startswith(root + "/")
    dots = any(set(segment) <= {"."} and segment for segment in path.split("/"))
    if not below or dots or PLAIN_PATH.fullmatch(path) is None:
        return None
    return f"{base.rstrip('/')}{path.removeprefix(root)}"


def _origin(parts: SplitResult) -> tuple[str, str, int | None]:
    return parts.scheme, parts.hostname or "", parts.port or _PORTS.get(parts.scheme)
