"""JSON-RPC request that passed every check of `endpoint.inbound`.

A class of our own, and no Struct, so that it can be compiled: a call reads two dozen of its attributes.
"""

from __future__ import annotations

from typing import Final

from fairlead_gateway.core.session import LegacySession
from fairlead_mcp import eras, jsonrpc
from fairlead_mcp.jsonrpc import RawObject
from fairlead_mcp.progress_token import ProgressToken


class RequestMeta:
    """Members of a request's `_meta` that decide how it is served."""

    __slots__ = (
        "extensions",
        "lacking",
        "log_level",
        "misread",
        "result_tokens",
        "token",
        "traced",
        "version",
        "versioned",
    )

    def __init__(
        self,
        lacking: str,
        version: bytes | None = None,
        *,
        versioned: bool = False,
        token: bool = False,
        log_level: bool = False,
        misread: str = "",
        extensions: frozenset[str] = frozenset(),
        result_tokens: int | None = None,
        traced: bool = False,
    ) -> None:
        self.traced = traced
        """Whether it has a member `traceparent` (SEP-414)."""
        self.result_tokens = result_tokens
        """Tokens that the result may have (`core.long_results`); None for any number, 0 for anything else."""
        self.extensions = extensions
        """Extensions of MCP that a modern client declares with the request (SEP-2133)."""
        self.lacking = lacking
        """Sentence about a member that a modern request lacks; empty for none."""
        self.misread = misread
        """A sentence about a member that servers may read otherwise; wrong in both eras."""
        self.version = version
        """Protocol version of a modern request in the encoding of headers; None where a header cannot hold it."""
        self.versioned = versioned
        """Whether it names a version, supported or not."""
        self.token = token
        """Whether it has a progress token."""
        self.log_level = log_level
        """Whether it asks for log messages."""


NO_META: Final = RequestMeta(f"params._meta lacks the required {eras.META_VERSION}")
"""Meta of a request without `_meta`."""


class McpRequest:
    """One request of a client, with raw params. The call takes members out of `params`."""

    __slots__ = (
        "any_structured",
        "default_tokens",
        "id",
        "meta",
        "method",
        "modern",
        "name",
        "opened",
        "params",
        "recording",
        "result_tokens",
        "session",
        "token",
    )

    def __init__(
        self,
        modern: bool,
        method: str,
        id: bytes,  # noqa: A002 - JSON-RPC's word
        params: RawObject,
        session: bytes | None,
        meta: RequestMeta = NO_META,
        token: ProgressToken | None = None,
    ) -> None:
        self.modern = modern
        self.method = method
        self.id = id
        """Raw JSON: a string or an integer."""
        self.params = params
        self.session = session
        """`Mcp-Session-Id` of a legacy client that has one."""
        self.meta = meta
        self.token = token
        """None where it asks for no progress."""
        self.name: str | None = None
        """Name or URI that `Mcp-Name` repeats, where it was read already to be compared with that."""
        self.opened: LegacySession | None = None
        """The session of that id, where it was signed with our key for this principal."""
        self.any_structured = modern
        """Whether `structuredContent` of its result may be of any type; else it is an object or left out."""
        self.recording: str | None = None
        """Session of kept results that its own is added to (`execute_tool`)."""
        self.result_tokens: int | None = None
        """Tokens that the result may have, where that is said outside of MCP."""
        self.default_tokens: int | None = None
        """Tokens that it may have where nobody says anything; None for any number."""

    @property
    def continued(self) -> bool:
        """Whether it goes on with a request that was answered by questions (SEP-2322)."""
        return "inputResponses" in self.params or "requestState" in self.params

    def named(self, member: str) -> str:
        """The name or URI in `member`, which is the one that `Mcp-Name` repeats for this method. Raises KeyError where
        there is none, msgspec.DecodeError or UnicodeDecodeError where it is not a string.
        """
        return jsonrpc.decode_text(self.params[member]) if self.name is None else self.name

    def sessionless(self) -> McpRequest:
        """This request without its session id."""
        return McpRequest(self.modern, self.method, self.id, self.params, None, self.meta, self.token)
