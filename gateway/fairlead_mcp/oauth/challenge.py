"""Parser of the `WWW-Authenticate` with which a server refuses a request (RFC 9110 section 11.6.1). No I/O.

A field may have several challenges, and their separator, the comma, also separates the parameters of one challenge:

    Basic realm="a, b", Bearer error="invalid_token", resource_metadata="https://example.com/.well-known/…"
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

import msgspec

from fairlead_mcp.errors import HttpRefused, McpError
from fairlead_mcp.oauth.scopes import split_scopes

MAX_CHALLENGE_BYTES: Final = 8 << 10
"""Limit on the length of a field; a longer one is ignored."""
UNAUTHORIZED: Final = "unauthorized"
"""The server does not take the token, which may have been revoked."""
INSUFFICIENT_SCOPE: Final = "insufficient_scope"
"""`error` of a server that takes the token, but wants one with more scopes (RFC 6750 section 3.1)."""
MAX_PARTS: Final = 64
"""Limit on the schemes and parameters of a field, after which the rest is ignored."""
_MAX_ERROR: Final = 64
_MAX_URL: Final = 2_048

_WORD: Final = r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+"
_PARAMETER: Final = re.compile(rf'({_WORD})[ \t]*=[ \t]*(?:"((?:[^"\\]|\\.)*)"|([^ \t,"]+))', re.DOTALL)
_SCHEME: Final = re.compile(rf"({_WORD})(?:[ \t]+|(?=,|$))")
_TOKEN68: Final = re.compile(r"[A-Za-z0-9\-._~+/]+=*[ \t]*(?=,|$)")
_SEPARATOR: Final = re.compile(r"[ \t]*(?:,[ \t]*)*")
_REST: Final = re.compile(r"(?:\"(?:[^\"\\]|\\.)*\"|[^,\"])+|.", re.DOTALL)
_ESCAPED: Final = re.compile(r"\\(.)", re.DOTALL)


class Challenge(msgspec.Struct, frozen=True):
    """Parameters of a `Bearer` challenge (RFC 6750 section 3, RFC 9728 section 5.1). An empty text is an absent one."""

    error: str = ""
    scopes: tuple[str, ...] = ()
    resource_metadata: str = ""
    """URL as the server wrote it; it is not verified."""

    @property
    def wants_scopes(self) -> bool:
        """Whether the server takes the token, but wants one with more scopes."""
        return self.error == INSUFFICIENT_SCOPE

    @property
    def refusal(self) -> str:
        """Why the server refuses the token: UNAUTHORIZED or INSUFFICIENT_SCOPE."""
        return INSUFFICIENT_SCOPE if self.wants_scopes else UNAUTHORIZED

    @classmethod
    def parse(cls, field: bytes | None) -> Challenge | None:
        """Return the first `Bearer` challenge of a field; None without one, or for a field that is too long.

        Several lines of the field have to be joined by commas. What is malformed is skipped; never raises.
        """
        if not field or len(field) > MAX_CHALLENGE_BYTES:
            return None
        for scheme, parameters in _challenges(field.decode("latin-1")):
            if scheme.lower() == "bearer":
                error, url = parameters.get("error", ""), parameters.get("resource_metadata", "")
                return cls(
                    error if len(error) <= _MAX_ERROR and error.isprintable() else "",
                    split_scopes(parameters.get("scope", "")),
                    url if len(url) <= _MAX_URL else "",
                )
        return None


def challenge_of(error: McpError) -> Challenge | None:
    """The challenge of a server that refuses the token of a request (401), or wants one with more scopes (403); None
    for any other error. The server has then executed nothing, so the request may be sent again with another token.
    """
    if not isinstance(error, HttpRefused) or error.status not in (401, 403):
        return None
    challenge = Challenge.parse(error.challenge)
    if error.status == 401:
        return challenge or Challenge()
    return challenge if challenge is not None and challenge.wants_scopes else None


def _challenges(text: str) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield each scheme with its parameters, whose names are in lower case; the first of equal names counts."""
    scheme = ""
    parameters: dict[str, str] = {}
    at = 0
    for _ in range(MAX_PARTS):
        at = _end(_SEPARATOR, text, at)
        if at == len(text):
            break
        if (match := _PARAMETER.match(text, at)) is not None:
            value = match[3] if match[2] is None else _ESCAPED.sub(r"\1", match[2])
            parameters.setdefault(match[1].lower(), value)
        elif (match := _SCHEME.match(text, at)) is not None:
            if scheme:
                yield scheme, parameters
            scheme, parameters = match[1], {}
            if (credentials := _TOKEN68.match(text, match.end())) is not None:
                match = credentials
        else:
            match = _REST.match(text, at)
        if match is not None:
            at = match.end()
    if scheme:
        yield scheme, parameters


def _end(pattern: re.Pattern[str], text: str, at: int) -> int:
    match = pattern.match(text, at)
    return at if match is None else match.end()
