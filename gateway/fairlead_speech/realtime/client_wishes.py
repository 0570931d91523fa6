"""Wishes of a client: those for the gateway itself, and those for the provider that do not pass."""

from __future__ import annotations

from typing import Final

import msgspec

from fairlead_speech import realtime_events
from fairlead_speech.realtime.tools import has_provider_mcp
from fairlead_speech.realtime_events import Event
from fairlead_speech.session import FrameSink
from fairlead_speech.shown_tools import ShownTools, TierWish
from fairlead_speech.tiers import UnknownTier

SESSION_UPDATE: Final = "fairlead.session.update"
"""Event of a client that is for the gateway: `{tier?, queue_depth?}`."""
_MCP_REFUSED: Final = (
    "tools of type mcp are called by the provider itself, past this gateway's policies and audit log, and are refused "
    "here: the gateway brings the tools of its own servers"
)


class ClientWishes:
    """Wishes of one session's client."""

    def __init__(self, client: FrameSink, shown: ShownTools, *, provider_mcp: bool) -> None:
        """`provider_mcp`: whether a client may have the provider itself call MCP servers."""
        self._client = client
        self._shown = shown
        self._provider_mcp = provider_mcp

    async def allowed(self, event: Event, param: str | None) -> bool:
        """Whether all tools within a client's event are allowed; the client is told where they are not. `param`: where
        they belong in this one.
        """
        if self._provider_mcp or not has_provider_mcp(event):
            return True
        refusal = realtime_events.error_event(_MCP_REFUSED, "mcp_tools_refused", param, event.get("event_id"))
        await self._client.send(refusal)
        return False

    async def take(self, frame: bytes) -> None:
        """Do what a client wishes of its session; it is told where that cannot be."""
        try:
            await self._shown.wish(msgspec.json.decode(frame, type=TierWish))
        except (msgspec.MsgspecError, UnknownTier) as error:
            event_id = realtime_events.read(frame).get("event_id")
            await self._client.send(realtime_events.error_event(str(error), "invalid_value", "tier", event_id))
