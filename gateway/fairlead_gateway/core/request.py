"""A JSON-RPC request that passed every rung of `endpoint.inbound`.

A class of our own, and no Struct, so that it can be compiled: a call reads two dozen of its attributes.
"""

from __future__ import annotations

from typing import Final

from fairlead_gateway.core.session import SessionClaims
from fairlead_mcp import eras
from fairlead_mcp.jsonrpc import RawObject


class RequestMeta:
    """What is gone by of a request's `_meta`."""

    __slots__ = ("lacking", "log_level", "misread", "token", "version", "versioned")

    def __init__(
        self,
        lacking: str,
        version: bytes | None = None,
        *,
        versioned: bool = False,
        token: bool = False,
        log_level: bool = False,
        misread: str = "",
    ) -> None:
        self.lacking = lacking
        """What is wrong with it for a modern request."""
        self.misread = misread
        """A sentence about a member that servers may read otherwise; wrong in both eras."""
        self.version = version
        """The protocol's, of modern requests, as it stands in a header; None where it cannot stand in one."""
        self.versioned = versioned
        """Whether it names a version, whatever that is."""
        self.token = token
        """Whether it asks for progress."""
        self.log_level = log_level
        """Whether it asks for log messages."""


NO_META: Final = RequestMeta(f"params._meta lacks the required {eras.META_VERSION}")
"""Of a request without any."""


class McpRequest:
    """See the module. `params` are used up by whoever makes the call."""

    __slots__ = ("id", "meta", "method", "modern", "opened", "params", "session")

    def __init__(
        self,
        modern: bool,
        method: str,
        id: bytes,  # noqa: A002 - JSON-RPC's word
        params: RawObject,
        session: bytes | None,
        meta: RequestMeta = NO_META,
    ) -> None:
        self.modern = modern
        self.method = method
        self.id = id
        """Raw JSON: a string or an integer."""
        self.params = params
        self.session = session
        """`Mcp-Session-Id` of a legacy client that has one."""
        self.meta = meta
        """Of its `params`."""
        self.opened: SessionClaims | None = None
        """What `session` says, where it was signed here and is the asker's."""

    def sessionless(self) -> McpRequest:
        """The same of a client without a session."""
        return McpRequest(self.modern, self.method, self.id, self.params, None, self.meta)
