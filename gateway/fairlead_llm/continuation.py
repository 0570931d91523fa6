"""Continuation of finished responses by id (`previous_response_id`, `conversation`). Pure module."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import msgspec

from fairlead_formats.wire.protocol import WireAnswer, WireRequest, WireStream
from fairlead_gateway.core.identity import Identity
from fairlead_llm.loop import RoundResults, ToolLoop
from fairlead_llm.preparation import PreparedRequest
from fairlead_models.providers import ModelTarget


class ContinuedRequest(msgspec.Struct, frozen=True):
    """A request, combined with the response that it continues."""

    wire_request: WireRequest
    """The request, parsed."""
    body: bytes
    """Body of the request in the client's format, which is parsed again if the provider has another format."""
    targets: Sequence[ModelTarget]
    """Models that can answer the request."""


class FinishedResponse(msgspec.Struct, frozen=True):
    """A finished response, with the data that is needed to continue it."""

    identity: Identity
    caller_key: str
    """The client's own API key for the provider; empty if the gateway's key is used."""
    client_request: WireRequest
    """The client's request in the client's format."""
    prepared_request: PreparedRequest
    """The request in the form that the provider received."""
    rounds: Sequence[WireAnswer] | WireStream
    """Answers of all rounds, or the stream that relayed them."""
    client_output: bytes
    """The client's response: the whole body, or the last events of its stream."""
    results: Sequence[bytes]
    """Tool results of the last round."""


class Continuations(Protocol):
    """Store of finished responses, which requests continue by id."""

    async def resolve(
        self,
        identity: Identity,
        caller_key: str,
        wire_request: WireRequest,
        body: bytes,
        targets: Sequence[ModelTarget],
    ) -> ContinuedRequest:
        """Combine the request with the response that it continues. `caller_key` as in `FinishedResponse`. Raises
        LlmError if the response is unknown or expired.
        """

    async def run_approved(self, loop: ToolLoop) -> RoundResults | None:
        """Run the calls that the client has approved; None if there are none. Raises Problem."""

    async def keep(self, response: FinishedResponse) -> None:
        """Store a finished response under its id."""
