"""Base URLs: Server Objects of a document, a path or an operation. No I/O."""

from __future__ import annotations

import re
from typing import Any, Final
from urllib.parse import urljoin, urlsplit, urlunsplit

from fairlead_openapi.compiling.shapes import UnusablePart, mapping, sequence

_VARIABLE: Final = re.compile(r"\{([^{}]*)\}")


def base_url(servers: Any, document_url: str) -> str:
    """The first server's absolute URL without trailing slash, its variables set to their defaults.

    Relative URLs are resolved against `document_url`, which is empty if unknown. Without servers, the URL is `/`
    (OpenAPI 3.1, section 4.8.1.1); the result is empty if that cannot be resolved. Raises UnusablePart.
    """
    server_objects = sequence(servers, "`servers`")
    if not server_objects:
        return _absolute_url("/", document_url) if document_url else ""
    server = mapping(server_objects[0], "the first server")
    template = server.get("url", "/")
    if not isinstance(template, str):
        raise UnusablePart("the URL of the first server is not a string")
    variables = mapping(server.get("variables"), "`variables` of the first server")

    def value(match: re.Match[str]) -> str:
        variable = variables.get(match[1])
        default = variable.get("default") if isinstance(variable, dict) else None
        if isinstance(default, bool) or not isinstance(default, str | int | float):
            raise UnusablePart(f"variable {match[1][:100]!r} of the server's URL has no default")
        return str(default)

    return _absolute_url(_VARIABLE.sub(value, template.strip()), document_url)


def _absolute_url(url: str, document_url: str) -> str:
    try:
        parts = urlsplit(urljoin(document_url, url))
        _ = parts.port
    except ValueError as error:
        raise UnusablePart(f"{url[:200]!r} is not a valid URL of a server: {error}") from error
    if parts.scheme not in ("http", "https") and not document_url and not parts.scheme:
        raise UnusablePart(f"the server's URL {url[:200]!r} is relative, and the document's own URL is unknown")
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise UnusablePart(f"{url[:200]!r} is not a valid URL of a server: it needs http or https and a host")
    if parts.username is not None or parts.password is not None:
        raise UnusablePart("the URL of the server contains credentials")
    return urlunsplit((parts.scheme, parts.netloc, parts.path.rstrip("/"), "", ""))
