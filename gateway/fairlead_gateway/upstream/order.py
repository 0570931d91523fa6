"""One `tools/call` as the server shall get it, and who waits for what comes of it.

Pure declarations: `calls.dispatch` makes them, `upstream.base` takes them. Classes of our own, neither Struct nor
Protocol, so that they can be compiled: a call reads a dozen of their attributes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from msgspec import Raw
from mypy_extensions import mypyc_attr

from fairlead_mcp.http.exchange import Counter
from fairlead_mcp.messages import Message

Notify: TypeAlias = Callable[[Message], None]
"""Called with each notification that a server sends while it works on a call. Must not raise or block."""


class Order:
    """See the module. Never changed once it is made."""

    __slots__ = ("counter", "deadline", "id", "max_bytes", "name_header", "notify", "params", "session", "trace")

    def __init__(
        self,
        id: bytes,  # noqa: A002 - JSON-RPC's word
        params: bytes,
        name_header: bytes,
        deadline: float,
        max_bytes: int,
        notify: Notify | None = None,
        session: bytes | None = None,
        trace: bytes = b"",
        counter: Counter | None = None,
    ) -> None:
        self.id = id
        """Raw JSON, from the upstream's `next_id`."""
        self.params = params
        """Raw JSON in the upstream's era, under the tool's own name."""
        self.name_header = name_header
        """Value of `Mcp-Name`."""
        self.deadline = deadline
        """Seconds of the monotonic clock."""
        self.max_bytes = max_bytes
        self.notify = notify
        self.session = session
        """The client's session, where it has one and the upstream tells clients apart."""
        self.trace = trace
        """The trace that it belongs to, as lines of an HTTP head; `params` name it too."""
        self.counter = counter
        """Counts a large answer while it arrives."""

    def again(self, ident: bytes) -> Order:
        """The same under another id."""
        return Order(
            ident, self.params, self.name_header, self.deadline, self.max_bytes, self.notify, self.session, self.trace,
            self.counter,
        )  # fmt: skip

    def traced(self, params: bytes, trace: bytes) -> Order:
        """The same within another span."""
        return Order(
            self.id, params, self.name_header, self.deadline, self.max_bytes, self.notify, self.session, trace,
            self.counter,
        )  # fmt: skip


@mypyc_attr(allow_interpreted_subclasses=True)
class Recipient:
    """Who waits for a call. Exactly one of these is called, once, possibly before `submit` returns."""

    __slots__ = ()

    def answered(self, result: Raw) -> None:
        raise NotImplementedError

    def failed(self, error: Exception) -> None:
        """`error` is a McpError, but for defects."""
        raise NotImplementedError

    def again(self) -> None:
        """The server did not execute the call and would not now: make it by `Upstream.call`."""
        raise NotImplementedError
