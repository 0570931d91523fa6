"""Parses `WWW-Authenticate`, the header of a refused request (RFC 9110 section 11.6.1). No I/O.

A header may contain several challenges. A comma separates challenges, and also the parameters of one challenge:

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
"""Maximum length of a header; a longer header is ignored."""
UNAUTHORIZED: Final = "unauthorized"
"""The server does not accept the token, which may have been revoked."""
INSUFFICIENT_SCOPE: Final = "insufficient_scope"
"""`error` of a server that accepts the token, but requires one with more scopes (RFC 6750 section 3.1)."""
MAX_PARTS: Final = 64
"""Maximum number of schemes and parameters of a header; the rest is ignored."""
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
    """Parameters of a `Bearer` challenge (RFC 6750 section 3, RFC 9728 section 5.1); empty if absent."""

    error: str = ""
    scopes: tuple[str, ...] = ()
    resource_metadata: str = ""
    """URL as the server sent it, unverified."""

    @property
    def lacks_scopes(self) -> bool:
        """Whether the token is valid, but lacks scopes that the server requires for the request."""
        return self.error == INSUFFICIENT_SCOPE

    @property
    def refusal_reason(self) -> str:
        """Why the server refuses the token: UNAUTHORIZED or INSUFFICIENT_SCOPE."""
        return INSUFFICIENT_SCOPE if self.lacks_scopes else UNAUTHORIZED

    @classmethod
    def parse(cls, field: bytes | None) -> Challenge | None:
        """The first `Bearer` challenge of a header; None if there is none, or the header is too long.

        Several lines of the header must be joined by commas. Malformed parts are skipped; never raises.
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
    """The challenge of a server that refuses the token of a request (401) or requires more scopes (403); None for any
    other error. After a challenge, the request may be sent again with another token: the server has executed nothing.
    """
    if not isinstance(error, HttpRefused) or error.status not in (401, 403):
        return None
    challenge = Challenge.parse(error.challenge)
    if error.status == 401:
        return challenge or Challenge()
    return challenge if challenge is not None and challenge.lacks_scopes else None


def _challenges(text: str) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield each scheme with its parameters. Names are in lower case; the first of several parameters with the same
    name counts.
    """
    scheme = ""
    parameters: dict[str, str] = {}
    position = 0
    for _ in range(MAX_PARTS):
        position = _end(_SEPARATOR, text, position)
        if position == len(text):
            break
        if (match := _PARAMETER.match(text, position)) is not None:
            value = match[3] if match[2] is None else _ESCAPED.sub(r"\1", match[2])
            parameters.setdefault(match[1].lower(), value)
        elif (match := _SCHEME.match(text, position)) is not None:
            if scheme:
                yield scheme, parameters
            scheme, parameters = match[1], {}
            if (credentials := _TOKEN68.match(text, match.end())) is not None:
                match = credentials
        else:
            match = _REST.match(text, position)
        if match is not None:
            position = match.end()
    if scheme:
        yield scheme, parameters


def _end(pattern: re.Pattern[str], text: str, position: int) -> int:
    """End of the match of a pattern at `position`; `position` if it does not match."""
    match = pattern.match(text, position)
    return position if match is None else match.end()
