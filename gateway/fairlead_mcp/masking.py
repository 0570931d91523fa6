"""Removes a server's credential from errors that the server answers with: some quote the request that they got.

A server's results are its own words and pass untouched; a server that holds a credential can always give it away.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence
from typing import Final, Self, TypeVar

from fairlead_api.documents.catalog import Credential
from fairlead_mcp.errors import McpError, RpcError
from fairlead_mcp.surroundings import NETWORK

SHOWN: Final = "[credential]"
SHORTEST: Final = 4
"""Characters of what is taken out: a shorter value would be found in every other word."""

_SECRET: Final = re.compile(
    r"key|token|secret|passw|_pwd|_pat$|auth(?!ors?\b|or_)|credential|cookie|dsn|private|bearer", re.IGNORECASE
)
"""In the name of an environment variable: its value is one. `LOG_LEVEL=info` is none, and stays in what is shown."""
_PASSWORD: Final = re.compile(r"^[a-z][a-z0-9+.-]*://[^/@\s]*:([^/@\s]+)@", re.IGNORECASE)
"""In a URL."""

_ASSIGNED: Final = re.compile("[=:]")
"""Between a name and its value in one argument: `--api-key=…`, `Authorization: Bearer …`."""

E = TypeVar("E", bound=McpError)


class Mask:
    """Knows the values of one credential. Falsy for one without."""

    __slots__ = ("_values",)

    def __init__(self, credential: Credential | None) -> None:
        sent = credential or Credential()
        # where certificates and proxies are, is public, and what a server's failure is understood by
        own = {value for name, value in sent.env.items() if name.lower() not in NETWORK or "@" in value}
        values = {*sent.headers.values(), *own, sent.token}
        values |= {value.rpartition(" ")[2] for value in sent.headers.values()}
        self._values = sorted((value for value in values if len(value) >= SHORTEST), key=len, reverse=True)

    @classmethod
    def of_process(cls, args: Sequence[str], env: Mapping[str, str]) -> Self:
        """For what a process prints that was started with these: values of variables and options whose names sound like
        secrets, values of such headers in its arguments, and passwords in URLs.
        """
        options = [pair for pair in itertools.pairwise(args) if pair[0].startswith("-") and "=" not in pair[0]]
        named = [*env.items(), *options, *(_ASSIGNED.split(word, maxsplit=1) for word in args)]
        secrets = [pair[1].strip() for pair in named if len(pair) == 2 and _SECRET.search(pair[0])]
        passwords = [match[1] for word in (*args, *env.values()) if (match := _PASSWORD.match(word))]
        values = (*secrets, *(value.rpartition(" ")[2] for value in secrets), *passwords)
        return cls(Credential(env={str(number): value for number, value in enumerate(values)}))

    def __bool__(self) -> bool:
        return bool(self._values)

    def __repr__(self) -> str:
        return f"<Mask of {len(self._values)} values>"

    def text(self, text: str) -> str:
        """`text` without the values."""
        for value in self._values:
            if value in text:
                text = text.replace(value, SHOWN)
        return text

    def error(self, error: E) -> E:
        """Copy of the error with the credential removed."""
        if self._values:
            error.args = tuple(self.text(part) if isinstance(part, str) else part for part in error.args)
            if isinstance(error, RpcError):
                error.message = self.text(error.message)
                if error.data is not None:
                    error.data = self.text(error.data.decode("utf-8", "replace")).encode()
        return error
