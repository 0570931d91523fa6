"""Calls of a model's message with the tools that they call, and their outcomes."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from fairlead_api.documents.servers import ServerEntry
from fairlead_formats.messages.call import ModelCall
from fairlead_formats.tool_format import JsonObject
from fairlead_gateway.policy.decision import Denial
from fairlead_offers.catalogs.visible_tools import VisibleTool, VisibleTools


class PlannedCall(msgspec.Struct, frozen=True):
    """Call of the model with the tool that it calls, or with the reason why it cannot run."""

    call: ModelCall
    entry: VisibleTool | None
    """Tool of the gateway; None if the call is refused, unknown, or run by the caller."""
    arguments: bytes = b"{}"
    timeout: float | None = None
    """Seconds; None: the timeout of the tool."""
    retries: int | None = None
    """Maximum attempts after the first; None: the setting of the server."""
    client_runs: bool = False
    """Whether the caller runs the call."""
    client_definition: JsonObject | None = None
    """Definition of the caller's tool, if the request has one."""
    similar_name: str | None = None
    """Name of a tool that was probably meant, for a call of an unknown tool."""
    refusal: str | None = None
    """Sentence for the model about why the call is refused. The sentence names a policy's reason only if the principal
    may know the reason.
    """
    denial: Denial | None = None
    """Decision of a policy that denies the tool, for the audit log."""
    unready: ServerEntry | None = None
    """Server without a catalog yet that may have the tool."""
    recording: str | None = None
    """Id of the session in which the result of a call by `execute_tool` is stored."""

    @property
    def runs(self) -> bool:
        """Whether the gateway runs the call."""
        return self.entry is not None and self.call.valid


class PlannedCalls(msgspec.Struct, frozen=True):
    """Calls of one message, and the visible tools to which they were matched."""

    visible: VisibleTools
    calls: Sequence[PlannedCall]


class CallOutcome(msgspec.Struct, frozen=True):
    """Outcome of one call of a message."""

    result: bytes | None
    """Raw MCP result, which may be a refusal; None: no tool was called."""
    seconds: float = 0
    unknown_tool_message: str | None = None
    """Message for the model about an unknown tool; None for other outcomes."""
