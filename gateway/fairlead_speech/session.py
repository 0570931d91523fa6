"""Interface of a speech session, which all speech engines implement; limits and end of a session.

The interface has no methods that create or cancel responses, because engines have different rules for turns.
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
"""Outcome of a session whose agent has used up its daily tokens."""
SESSION_SECONDS: Final = 3600
"""Maximum duration of a session with a cascaded engine, as in OpenAI's API."""


class SessionEnd:
    """Request of the gateway to end one session."""

    def __init__(self) -> None:
        self._requested = asyncio.Event()
        self._result = "", Closing(1000)

    def request(self, outcome: str, closing: Closing) -> None:
        """Request the end of the session with an outcome, and with a close frame for the client. Only the first request
        counts.
        """
        if not self._requested.is_set():
            self._result = outcome, closing
            self._requested.set()

    async def wait(self) -> tuple[str, Closing]:
        """Wait for the request. Returns its outcome and close frame."""
        await self._requested.wait()
        return self._result


def close_over_budget(record: RequestRecord) -> Closing | None:
    """Close frame for a session whose agent has used up its daily tokens; None if tokens are left. The code is 1008,
    because SDKs reconnect at once after the codes 1011 to 1013.
    """
    reached_quota = record.reached_limit()
    return None if reached_quota is None else Closing(POLICY_VIOLATION, reached_quota.message)


class MessageSink(Protocol):
    """Interface for sending messages to one side of a session, client or provider."""

    async def send(self, payload: bytes) -> None:
        """Send a message, and wait while buffers are full. Messages to a closed side are dropped."""
        ...


class SpeechSession(Protocol):
    """Interface of a session with a speech model, in any engine."""

    async def set_tools(self, offer: ToolOffer) -> None:
        """Set the tools that the model gets from the gateway, in addition to the client's tools. The change applies as
        soon as the engine allows it.
        """
        ...

    async def send_result(self, call: ModelCall, result: Mapping[str, Any]) -> None:
        """Send the result of a call to the model. The model continues when it has the results of all calls of a
        response.
        """
        ...


class BridgedSession(SpeechSession, Protocol):
    """Interface of a session between a client and a provider that use the same wire format."""

    client_messages: MessageReader
    """Reader that checks the client's messages before `from_client`."""
    provider_messages: MessageReader
    """Reader that checks the provider's messages before `from_provider`."""
    end: SessionEnd
    """Object by which the session can request its end."""

    @property
    def responding(self) -> bool:
        """Whether the model is responding, or is about to respond."""
        ...

    async def from_client(self, payload: bytes) -> bytes | None:
        """Translate a message of the client for the provider. Returns None if nothing is forwarded. Raises
        RefusedMessage.
        """
        ...

    async def from_provider(self, payload: bytes) -> bytes | None:
        """Translate a message of the provider for the client. Returns None if nothing is forwarded. Raises
        RefusedMessage.
        """
        ...

    def refusal(self, error: UnreadableMessage) -> bytes | None:
        """Answer to a client's message that cannot be read. None: the session ends."""
        ...

    async def announce_drain(self, seconds: float) -> None:
        """Tell the client that the gateway will close the session as soon as the model is not responding, at the latest
        after `seconds`. Does nothing in wire formats without such a message.
        """
        ...

    async def aclose(self) -> None:
        """Cancel the tasks of the session."""
        ...


class SpeechBounds(msgspec.Struct, frozen=True):
    """Limits of each session of a gateway. Times are in seconds."""

    check_seconds: float = 1.0
    """Interval of the checks whether a peer does not read, and whether a drain has to close the session."""
    stalled_seconds: float = 10.0
    """Time without reading after which a client or provider has stalled, and the session ends. The other side waits
    until then.
    """
    session_seconds: float = SESSION_SECONDS
    """Maximum duration of a session with a cascaded engine, which `expires_at` announces to the client."""
    response_seconds: float = 900.0
    """Maximum duration of a response of a cascaded engine. A limit on idle time is not enough, because a server that
    sends single bytes is never idle. A long spoken answer takes five minutes.
    """
    routed_turns: int = 16
    """Maximum number of turns that wait, in a routed session, for an answer of the provider or the engine."""
    routed_bytes: int = 12 << 20
    """Maximum number of bytes of audio of these waiting turns."""
