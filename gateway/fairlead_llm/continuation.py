"""Finished responses that a client continues by id (`previous_response_id`, `conversation`). Pure module."""

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
    """A request together with the response that it continues."""

    read: WireRequest
    body: bytes
    """The body in the client's format: a provider of another family has its format read it again."""
    targets: Sequence[ModelTarget]
    """Models that may answer it."""


class FinishedResponse(msgspec.Struct, frozen=True):
    """A finished response, with all that is needed to continue it."""

    identity: Identity
    caller_key: str
    """The caller's own key for the provider; empty where it is the gateway's."""
    client_request: WireRequest
    """The client's request in the client's format."""
    prepared: PreparedRequest
    rounds: Sequence[WireAnswer] | WireStream
    """Answers of all rounds, or the stream that passed them on."""
    written: bytes
    """The response as the client gets it: whole, or the last events of its stream."""
    results: Sequence[bytes]
    """Tool results of the last round."""


class Continuations(Protocol):
    """Store of finished responses that requests continue by id."""

    async def resolve(
        self, identity: Identity, caller_key: str, read: WireRequest, body: bytes, targets: Sequence[ModelTarget]
    ) -> ContinuedRequest:
        """The request with the response that it continues. `caller_key`: as in `FinishedResponse`. Raises LlmError
        where that response is unknown or has expired.
        """

    async def run_approved(self, loop: ToolLoop) -> RoundResults | None:
        """Run the calls that the client has approved; None without any. Raises Problem."""

    async def keep(self, finished: FinishedResponse) -> None:
        """Store a finished response under its id."""
