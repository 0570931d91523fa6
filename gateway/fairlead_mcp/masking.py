"""Masks a server's credential in the server's errors, as some servers quote the request with its credential.

Results are passed on unchanged: a server that has a credential can disclose it anyway.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, Self, TypeVar

from fairlead_api.documents.catalog import Credential, SentCredential
from fairlead_mcp.errors import HandshakeRefused, McpError, NotMcp, RpcError
from fairlead_mcp.jsonrpc import CUT
from fairlead_mcp.surroundings import NETWORK

PLACEHOLDER: Final = "[credential]"
MIN_LENGTH: Final = 4
"""Least length of a masked value: shorter values occur in many words."""
LONG_PREFIX: Final = 16
"""Number of characters from which a prefix of a secret value is masked at the end of a text: the text may have been cut
there.
"""

_SECRET: Final = re.compile(
    r"key|token|secret|passw|_pwd|_pat$|auth(?!ors?\b|or_)|credential|cookie|dsn|private|bearer", re.IGNORECASE
)
"""Matches names of environment variables and options that have a secret as their value."""
_PASSWORD: Final = re.compile(r"^[a-z][a-z0-9+.-]*://[^/@\s]*:([^/@\s]+)@", re.IGNORECASE)
"""Matches a URL with a password."""

_FLAG: Final = re.compile(r"true|false|yes|no|on|off|none|null|auto|default|enabled|disabled", re.IGNORECASE)
_COUNTS: Final = re.compile(r"limit|timeout|port|max|min|ttl|expir|size|count|budget|tokens", re.IGNORECASE)
"""Matches names of variables whose value is a number, such as `MAX_TOKENS`."""
_FILE: Final = re.compile(
    r"(?:~|\.{1,2}|[A-Za-z]:)?(?:[\\/][^\\/\n]+)*[\\/][^\\/\n]*\.[a-z][a-z0-9]{1,6}"
    r"|[\w. -]+\.(?:json|ya?ml|toml|ini|conf|env|txt|pem|key|crt|cer|p8|p12|pfx|pub)"
    r"|(?:~|\.{1,2})?(?:/[a-z_.-]{1,24}){2,}/?"
)
"""Matches paths: with an extension, or of lower-case words. Base64, in which `/` occurs too, is neither, and a longer
word may be a token.
"""
_ADDRESS: Final = re.compile(r"https?://[A-Za-z0-9.-]+(?::[0-9]+)?(?:/(?:[a-z_.-]{1,24}|v[0-9.]+))*/?")
"""Matches URLs without user, query and anything that could be random."""
_WORDS: Final = re.compile(r"[A-Za-z]{1,15}(?:[/_-][A-Za-z]{1,15}){0,2}")

_ASSIGNED: Final = re.compile("[=:]")
"""Separates name and value in an argument: `--api-key=…`, `Authorization: Bearer …`."""

E = TypeVar("E", bound=McpError)


class Mask:
    """Masks the values of one credential. Falsy if the credential has no values."""

    __slots__ = ("_values",)

    def __init__(self, credential: Credential | None) -> None:
        source = credential or Credential()
        secret_variables = {value for name, value in source.env.items() if not _is_public(name, value)}
        values = {*secret_variables, source.token, source.client_secret, source.private_key}
        parts: list[SentCredential] = [source, *source.schemes.values()]
        for part in parts:
            values |= {*part.headers.values(), *part.query.values(), *part.cookies.values()}
            values |= {value.rpartition(" ")[2] for value in part.headers.values()}
        values |= {value for arguments in source.arguments.values() for value in arguments.values()}
        self._values = sorted((value for value in values if len(value) >= MIN_LENGTH), key=len, reverse=True)

    @classmethod
    def of_process(cls, args: Sequence[str], env: Mapping[str, str]) -> Self:
        """Make a mask for the output of a process with these arguments and variables.

        Secrets are the values of variables, options and headers whose names match `_SECRET`, except paths and other
        values that are public, and passwords in URLs.
        """
        options = [pair for pair in itertools.pairwise(args) if pair[0].startswith("-") and "=" not in pair[0]]
        pairs = [*env.items(), *options, *(_ASSIGNED.split(word, maxsplit=1) for word in args)]
        secrets = [
            value
            for name, value in ((pair[0], pair[1].strip()) for pair in pairs if len(pair) == 2)
            if _SECRET.search(name) and not _is_public(name, value)
        ]
        passwords = [match[1] for word in (*args, *env.values()) if (match := _PASSWORD.match(word))]
        values = (*secrets, *(value.rpartition(" ")[2] for value in secrets), *passwords)
        return cls.of_values(values)

    @classmethod
    def of_values(cls, values: Iterable[str]) -> Self:
        """Make a mask of these values, whatever they look like."""
        return cls(Credential(arguments={"": {str(number): value for number, value in enumerate(values)}}))

    def with_value(self, value: str) -> Mask:
        """Return a mask that also masks the value of another header, such as `Bearer` with a token."""
        return self.joined(Mask(Credential(headers={"": value})))

    def joined(self, other: Mask) -> Mask:
        """Return a mask of the values of both masks."""
        mask = Mask(None)
        mask._values = sorted({*self._values, *other._values}, key=len, reverse=True)
        return mask

    def __bool__(self) -> bool:
        return bool(self._values)

    def __repr__(self) -> str:
        return f"<Mask of {len(self._values)} values>"

    def text(self, text: str) -> str:
        """Replace the values in a text by `[credential]`, also a value that an excerpt has cut off."""
        for value in self._values:
            if value in text:
                text = text.replace(value, PLACEHOLDER)
            text = _without_prefix(text, value)
        return text

    def error(self, error: E) -> E:
        """Mask the values in an error, in place."""
        if self._values:
            error.args = tuple(self.text(part) if isinstance(part, str) else part for part in error.args)
            if isinstance(error, HandshakeRefused):
                error.message = self.text(error.message)
            if isinstance(error, NotMcp):
                error.excerpt = self.text(error.excerpt)
            if isinstance(error, RpcError):
                error.message = self.text(error.message)
                if error.data is not None:
                    error.data = self.text(error.data.decode("utf-8", "replace")).encode()
        return error


def _is_public(name: str, value: str) -> bool:
    """Whether the value of a variable or option is not secret, so that it may explain failures: a flag, a number
    of something, an address, the path of a file (even of a file with a secret), or a word whose name does not sound
    like a secret. Variables for certificates and proxies are public too, unless they have a password.
    """
    if name.lower() in NETWORK:
        return "@" not in value
    if any(form.fullmatch(value) for form in (_FLAG, _FILE, _ADDRESS)):
        return True
    if value.isdecimal() and _COUNTS.search(name):
        return True
    return not _SECRET.search(name) and _WORDS.fullmatch(value) is not None


def _without_prefix(text: str, value: str) -> str:
    """Mask prefixes of a value that was cut off before a CUT or the end of the text: at least half of the value, or
    LONG_PREFIX characters. At the end of a text only LONG_PREFIX characters count, because a shorter prefix may be a
    word.
    """
    min_length = min(LONG_PREFIX, max(MIN_LENGTH, len(value) // 2))
    parts = []
    copied_until = 0
    at = text.find(value[:min_length])
    while at >= 0:
        length = min_length
        while length < len(value) and text.startswith(value[length], at + length):
            length += 1
        end = at + length
        if text.startswith(CUT, end) or (end == len(text) and length >= LONG_PREFIX):
            parts += [text[copied_until:at], PLACEHOLDER]
            copied_until = end
        at = text.find(value[:min_length], max(at + 1, copied_until))
    return "".join((*parts, text[copied_until:])) if parts else text
