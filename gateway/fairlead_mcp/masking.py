"""Takes a server's credential out of the errors that the server answers with: some show the request that they got.

Used by whoever tells people or agents of an error: the gateway's upstreams, the operator's discoveries and probes. A
server's results are its own words and pass untouched; whoever holds a credential can always give it away.
"""

from __future__ import annotations

from typing import Final, TypeVar

from fairlead_api.documents.catalog import Credential
from fairlead_mcp.errors import McpError, RpcError

SHOWN: Final = "[credential]"
SHORTEST: Final = 4
"""Characters of what is taken out: a shorter value would be found in every other word."""

E = TypeVar("E", bound=McpError)


class Mask:
    """Knows the values of one credential. Falsy for one without."""

    __slots__ = ("_values",)

    def __init__(self, credential: Credential | None) -> None:
        sent = credential or Credential()
        values = {*sent.headers.values(), *sent.env.values(), sent.token}
        values |= {value.rpartition(" ")[2] for value in sent.headers.values()}
        self._values = sorted((value for value in values if len(value) >= SHORTEST), key=len, reverse=True)

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
        """The same error, altered."""
        if self._values:
            error.args = tuple(self.text(part) if isinstance(part, str) else part for part in error.args)
            if isinstance(error, RpcError):
                error.message = self.text(error.message)
                if error.data is not None:
                    error.data = self.text(error.data.decode("utf-8", "replace")).encode()
        return error
