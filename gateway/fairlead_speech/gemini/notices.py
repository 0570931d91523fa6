"""Messages of the gateway's own to a client of Gemini Live, beside those of the provider."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from fairlead_formats.messages.call import ModelCall
from fairlead_speech.gemini.messages import side_note
from fairlead_speech.session import FrameSink
from fairlead_speech.tiers import SpokenTier

TOOL_RESULT: Final = "fairleadToolResult"
"""Parts of a result that cannot be spoken."""
ERROR: Final = "fairleadError"
"""Why a wish of the client was refused."""
TIER: Final = "fairleadTier"
"""Why a tier waits; for a client that named one."""


class ClientNotices:
    """Tells one client."""

    def __init__(self, client: FrameSink, tier: SpokenTier) -> None:
        self._client = client
        self._tier = tier
        self.wished = False
        """Whether the client has sent a wish: it knows of the gateway's messages."""

    async def unspoken(self, call: ModelCall, parts: list[dict[str, Any]]) -> None:
        """Send what cannot be spoken of a result."""
        await self._say(TOOL_RESULT, {"callId": call.id, "name": call.wire_name, "content": parts})

    async def refused(self, why: str) -> None:
        """Say why a wish was refused."""
        await self._say(ERROR, {"message": why})

    async def waits(self, reason: str) -> None:
        """Say that the tier waits."""
        if self.wished:
            await self._say(TIER, {"tier": self._tier.current, "waits": reason})

    async def passed_on(self, frame: bytes) -> None:
        """Send a message of the provider that was held back."""
        await self._client.send(frame)

    async def _say(self, name: str, value: Mapping[str, Any]) -> None:
        await self._client.send(side_note(name, value))
