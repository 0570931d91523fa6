"""Interface of every speech engine: a session that shows tools to a model and takes their results; its bounds and end.

Creating and cancelling responses is not part of it: who begins to speak when differs from engine to engine.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Final, Protocol

import msgspec

from fairlead_formats.messages.call import ModelCall
from fairlead_models.request_record import RequestRecord
from fairlead_offers.offer.offers import ToolOffer
from fairlead_speech.messages import MessageReader, UnreadableMessage
from fairlead_speech.sockets import POLICY_VIOLATION, Closing

OVER_BUDGET: Final = "over_budget"
"""Outcome of a session that spent its agent's daily tokens."""
SESSION_SECONDS: Final = 3600
"""Length of a session of a cascaded engine, as in OpenAI's API."""


class SessionEnd:
    """End of a session that the gateway requests."""

    def __init__(self) -> None:
        self._requested = asyncio.Event()
        self._result = "", Closing(1000)

    def request(self, outcome: str, closing: Closing) -> None:
        """End the session with an outcome and a close for its client; no-op after the first request."""
        if not self._requested.is_set():
            self._result = outcome, closing
            self._requested.set()

    async def wait(self) -> tuple[str, Closing]:
        """Wait for the request. Returns outcome and close."""
        await self._requested.wait()
        return self._result


def close_over_budget(record: RequestRecord) -> Closing | None:
    """Close for a session whose agent has spent its daily tokens; None while there are some left. SDKs do not reconnect
    at once after this code, as they do after 1011 to 1013.
    """
    spent = record.spent()
    return None if spent is None else Closing(POLICY_VIOLATION, spent.message)


class MessageSink(Protocol):
    """Side of a session to which messages are sent."""

    async def send(self, payload: bytes) -> None:
        """Send a message; wait until there is room for more. No-op where the side is closed."""
        ...


class SpeechSession(Protocol):
    """Session of one speech model, in any engine."""

    async def set_tools(self, offer: ToolOffer) -> None:
        """Offer these tools of the gateway to the model, beside the client's own, as soon as its engine can."""
        ...

    async def send_result(self, call: ModelCall, result: Mapping[str, Any]) -> None:
        """Send the result of a call to the model. It goes on once it has the results of all calls of its response."""
        ...


class BridgedSession(SpeechSession, Protocol):
    """Session between a client and a provider that speak the same wire format."""

    client_messages: MessageReader
    """Reader of the client's messages; `from_client` gets what it accepts."""
    provider_messages: MessageReader
    """Reader of the provider's messages; `from_provider` gets what it accepts."""
    end: SessionEnd
    """End that the session requests by itself."""

    @property
    def responding(self) -> bool:
        """Whether the model is responding, or is about to."""
        ...

    async def from_client(self, payload: bytes) -> bytes | None:
        """Message of the client in the form for the provider; None: nothing is forwarded. Raises RefusedMessage."""
        ...

    async def from_provider(self, payload: bytes) -> bytes | None:
        """Message of the provider in the form for the client; None: nothing is forwarded. Raises RefusedMessage."""
        ...

    def refusal(self, error: UnreadableMessage) -> bytes | None:
        """Answer to a client's message that cannot be read; None: the session ends."""
        ...

    async def announce_drain(self, seconds: float) -> None:
        """Announce to the client that the session is closed once the model is not responding, at the latest in
        `seconds`; no-op in wire formats without such a message.
        """
        ...

    async def aclose(self) -> None:
        """Cancel the tasks of the session."""
        ...


class SpeechBounds(msgspec.Struct, frozen=True):
    """Bounds of each session of a gateway; times in seconds."""

    check_seconds: float = 1.0
    """Interval of checks for stalled peers, and for the end of a drain."""
    stalled_seconds: float = 10.0
    """Time after which a side that reads nothing ends the session; the other side waits meanwhile."""
    session_seconds: float = SESSION_SECONDS
    """Time after which a session of a cascaded engine ends; `expires_at` announces it."""
    response_seconds: float = 900.0
    """Time for one response of a cascaded engine as a whole: a server that answers drop by drop is never idle. Nobody
    listens for so long: a long answer is said in five minutes.
    """
    routed_turns: int = 16
    """Turns of a routed session that wait for a decision whether provider or engine answers them."""
    routed_bytes: int = 12 << 20
    """Bytes of audio of the turns that wait."""
