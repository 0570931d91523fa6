"""What an upstream is to the path of a call.

Pure declarations. Implemented by `upstream.http`, `upstream.child` and `upstream.link`, made by `upstream.registry`,
called by `calls.dispatch`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeAlias

import msgspec
from msgspec import Raw

from fairlead_gateway.upstream.inquiry import Inquirable
from fairlead_gateway.upstream.order import Order, Recipient


class Gauges(msgspec.Struct, frozen=True):
    """An upstream's connections and calls at one moment."""

    busy: int = 0
    idle: int = 0
    waiting: int = 0


class Pending(Protocol):
    """A call without an outcome yet."""

    def cancel(self) -> None:
        """Cancel it at the server too. No outcome follows."""
        ...


Submit: TypeAlias = Callable[[Order, Recipient], Pending | None]
"""The method `submit` of an upstream that can take a call in the same step of the loop, so that no task has to wait for
the answer. None where something has to be waited for first: then make it by `Upstream.call`.
"""


class Upstream(Inquirable, Protocol):
    """One server as it is reached now: an endpoint, a credential, an era."""

    @property
    def modern(self) -> bool:
        """Whether it is spoken to in 2026-07-28 or later."""
        ...

    def next_id(self) -> bytes:
        """A request id, raw JSON, that this upstream has never seen."""
        ...

    async def call(self, order: Order) -> Raw:
        """Send the call and return its raw result, a JSON object, in the upstream's era.

        Raises fairlead_mcp.errors.McpError. Cancelling the caller cancels the call at the server too.
        """
        ...

    def gauges(self) -> Gauges: ...

    async def aclose(self, grace: float) -> None:
        """Let running calls end for up to `grace` seconds, then close everything. Calls that come are refused."""
        ...
