"""Interface of every speech engine: a session that shows tools to a model, and takes their results.

Creating and cancelling responses is no part of it: who begins to speak when differs from engine to engine.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Final, Protocol

from fairlead_formats.messages.call import ModelCall
from fairlead_models.request_record import RequestRecord
from fairlead_offers.offer.offers import ToolOffer
from fairlead_speech.frames import FrameReader, UnreadableFrame
from fairlead_speech.sockets import POLICY_VIOLATION, Closing

OVER_BUDGET: Final = "over_budget"
"""The agent's tokens of the day were spent by the session itself."""


class SessionEnd:
    """End of a session that the gateway itself decides on."""

    def __init__(self) -> None:
        self._asked = asyncio.Event()
        self._found = "", Closing(1000)

    def ask(self, outcome: str, closing: Closing) -> None:
        """End the session with an outcome, and its client with a close. The first one counts."""
        if not self._asked.is_set():
            self._found = outcome, closing
            self._asked.set()

    async def wait(self) -> tuple[str, Closing]:
        """Outcome and close, once somebody has asked for an end."""
        await self._asked.wait()
        return self._found


def day_over(record: RequestRecord) -> Closing | None:
    """The close for a session whose agent has no tokens left today; None while it has. With this code SDKs do not open
    the session again at once, as they do with 1011 to 1013.
    """
    spent = record.spent()
    return None if spent is None else Closing(POLICY_VIOLATION, spent.message)


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

    client_frames: FrameReader
    """Reads what the client sends, before `from_client` gets it."""
    provider_frames: FrameReader
    """Reads what the provider sends, before `from_provider` gets it."""
    end: SessionEnd
    """How the session ends itself."""

    @property
    def responding(self) -> bool:
        """Whether the model is in the middle of an answer, or owes one."""
        ...

    async def from_client(self, frame: bytes) -> bytes | None:
        """The frame as the provider gets it; None where it gets none. Raises RefusedFrame."""
        ...

    async def from_provider(self, frame: bytes) -> bytes | None:
        """The frame as the client gets it; None where it gets none. Raises RefusedFrame."""
        ...

    def refusal(self, error: UnreadableFrame) -> bytes | None:
        """The answer to a message of the client's that cannot be read; None: the session ends with it."""
        ...

    async def retire(self, seconds: float) -> None:
        """Tell the client that the session is closed once the model has answered, at the latest in so many seconds,
        where its wire format can say so.
        """
        ...

    async def aclose(self) -> None:
        """Cancel all that goes on for it."""
        ...
