"""A request that found its server. Declarations only, made by `calls.errands`."""

from __future__ import annotations

import msgspec

from fairlead_gateway.core.ports import AttemptMeter, CallRecorder, SchemaCheck
from fairlead_gateway.core.route import Route
from fairlead_gateway.core.server_binding import ServerBinding as Reach
from fairlead_mcp import jsonrpc


class Errand(msgspec.Struct, frozen=True):
    """A request that found its server. `params` are under the server's own names."""

    reach: Reach
    method: str
    params: jsonrpc.RawObject
    named: str | None
    """What `Mcp-Name` repeats, where the method has it."""
    headers: bytes = b""
    """`Mcp-Param-*`, as lines."""
    recorder: CallRecorder | None = None
    """Of the tool, for a call."""
    check: SchemaCheck | None = None
    """The same."""
    meter: AttemptMeter | None = None
    """The same."""
    idempotent: bool = False
    """Whether it may be asked again although the server may have got it."""
    route: Route | None = None
    """Of the tool, for a call."""
    escapes: bool = False
    """Whether policies want control characters in what the server says made visible."""
