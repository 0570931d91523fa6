"""Calls of one round of model and tools, and their results. Pure module."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from fairlead_formats.messages.call import InvalidCall, ModelCall
from fairlead_formats.wire.protocol import CallKey, FinishedCall, InnerCall, RunningCall
from fairlead_offers.documents import encode


class RoundCalls(msgspec.Struct, frozen=True):
    """Calls of one message of the model."""

    gateway_calls: Sequence[ModelCall]
    """Calls that the gateway runs."""
    client_calls: Sequence[CallKey]
    """Calls that the caller gets: of its own tools, and those that wait for it."""
    unwrapped: Mapping[str, InnerCall] = {}
    """Those of them that stand in the message as calls of `execute_tool`, by id."""


class RoundResults(msgspec.Struct, frozen=True):
    """Results of the calls that one round had run here."""

    messages: list[bytes]
    """As the model gets them."""
    finished: list[FinishedCall]


NO_RESULTS: Final = RoundResults([], [])
"""Those of a round that had nothing to run."""


def running_call(call: ModelCall) -> RunningCall:
    """A call as clients see it that ask for that; arguments that cannot be read are none."""
    arguments = b"{}" if isinstance(call.arguments, InvalidCall) else encode(call.arguments)
    return RunningCall(call.id, call.wire_name, arguments)
