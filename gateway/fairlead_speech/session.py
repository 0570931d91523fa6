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
"""The agent's tokens of the day were spent by the session itself."""


class SessionEnd:
    """End of a session that the gateway itself decides on."""

    def __init__(self) -> None:
        self._requested = asyncio.Event()
        self._result = "", Closing(1000)

    def request(self, outcome: str, closing: Closing) -> None:
        """End the session with an outcome, and its client with a close. The first one counts."""
        if not self._requested.is_set():
            self._result = outcome, closing
            self._requested.set()

    async def wait(self) -> tuple[str, Closing]:
        """Outcome and close, once somebody has asked for an end."""
        await self._requested.wait()
        return self._result


def close_over_budget(record: RequestRecord) -> Closing | None:
    """The close for a session whose agent has no tokens left today; None while it has. With this code SDKs do not open
    the session again at once, as they do with 1011 to 1013.
    """
    spent = record.spent()
    return None if spent is None else Closing(POLICY_VIOLATION, spent.message)


class MessageSink(Protocol):
    """One side of a bridged session, as far as frames are sent to it."""

    async def send(self, payload: bytes) -> None:
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

    client_messages: MessageReader
    """Reads what the client sends, before `from_client` gets it."""
    provider_messages: MessageReader
    """Reads what the provider sends, before `from_provider` gets it."""
    end: SessionEnd
    """How the session ends itself."""

    @property
    def responding(self) -> bool:
        """Whether the model is in the middle of an answer, or owes one."""
        ...

    async def from_client(self, payload: bytes) -> bytes | None:
        """The frame as the provider gets it; None where it gets none. Raises RefusedMessage."""
        ...

    async def from_provider(self, payload: bytes) -> bytes | None:
        """The frame as the client gets it; None where it gets none. Raises RefusedMessage."""
        ...

    def refusal(self, error: UnreadableMessage) -> bytes | None:
        """The answer to a message of the client's that cannot be read; None: the session ends with it."""
        ...

    async def announce_drain(self, seconds: float) -> None:
        """Tell the client that the session is closed once the model has answered, at the latest in so many seconds,
        where its wire format can say so.
        """
        ...

    async def aclose(self) -> None:
        """Cancel all that goes on for it."""
        ...


SESSION_SECONDS: Final = 3600
"""Length of a session of a cascaded engine, that of OpenAI's."""


class SpeechBounds(msgspec.Struct, frozen=True):
    """Bounds of each session of a gateway; times in seconds."""

    check_seconds: float = 1.0
    """Time between two looks for sides that do not read, and for the end of a drain."""
    stalled_seconds: float = 10.0
    """Time for which a side may read nothing; the other side is held up meanwhile."""
    session_seconds: float = SESSION_SECONDS
    """Time after which a session of a cascaded engine ends, as its client is told at the start."""
    response_seconds: float = 900.0
    """For one response of a cascaded engine as a whole, as servers that answer drop by drop are never idle. Nobody
    listens for so long: a long answer is said in five minutes.
    """
    routed_turns: int = 16
    """Turns that wait for it to be decided who answers them."""
    routed_bytes: int = 12 << 20
    """Audio of those."""
