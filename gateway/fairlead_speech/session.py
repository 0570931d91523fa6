"""Interface of every speech engine: a session that shows tools to a model, and takes their results.

Creating and cancelling responses is no part of it: who begins to speak when differs from engine to engine.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from fairlead_formats.messages.call import ModelCall
from fairlead_models.offers import ToolOffer


class FrameSink(Protocol):
    """One side of a bridged session, as far as frames are sent to it."""

    async def send(self, frame: bytes) -> None:
        """Send a message. Returns once there is room for more. No-op where the side is gone."""
        ...


class SpeechSession(Protocol):
    """Session of one speech model."""

    async def set_tools(self, offer: ToolOffer) -> None:
        """Have the model see these tools of the gateway, beside the client's own, as soon as its engine can."""
        ...

    async def send_result(self, call: ModelCall, result: Mapping[str, Any]) -> None:
        """Give the model the result of a call. It goes on once it has the results of all calls that it made at once."""
        ...


class BridgedSession(SpeechSession, Protocol):
    """Session between a client and a provider that speak the same wire format."""

    client_audio: tuple[bytes, ...]
    """Beginnings of frames of a client that pass without a look."""
    provider_audio: tuple[bytes, ...]
    """Beginnings of frames of a provider that pass without a look."""

    @property
    def responding(self) -> bool:
        """Whether the model is in the middle of an answer, or owes one."""
        ...

    async def from_client(self, frame: bytes) -> bytes | None:
        """The frame as the provider gets it; None where it gets none."""
        ...

    async def from_provider(self, frame: bytes) -> bytes | None:
        """The frame as the client gets it; None where it gets none."""
        ...

    async def retire(self, seconds: float) -> None:
        """Tell the client that the session is closed once the model has answered, at the latest in so many seconds,
        where its wire format can say so.
        """
        ...

    async def aclose(self) -> None:
        """Cancel all that goes on for it."""
        ...
