"""Prepares a model's message for parsing, and writes the outcomes of its calls in the message's format. No I/O."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from fairlead_client.outcomes import Outcome, UnknownFunction
from fairlead_formats.messages.call import CUSTOM, DEFAULT_CARRY, Carry, ModelCall, ResultLoss, WrittenMessages
from fairlead_formats.registry import message_format
from fairlead_formats.tool_format import JsonObject

_DEPTH: Final = 3
"""Levels of lists and objects in which SDK objects are looked for: message, content, part."""


@dataclass(frozen=True)
class Executed:
    """Outcomes of the calls in a model's message."""

    messages: tuple[JsonObject, ...]
    """Messages to append to the conversation after the model's message."""
    outcomes: tuple[Outcome, ...]
    """Outcomes in the order of the calls."""
    pending: tuple[str, ...]
    """Ids of the model's calls that the registry leaves to the program, without results in `messages`."""
    report: tuple[ResultLoss, ...]
    """Losses: parts of the results that the format cannot express."""


def decode(message: object, depth: int = 0) -> object:
    """Convert a message to decoded JSON. Objects of providers' SDKs, also in lists and objects, are converted by their
    pydantic method `model_dump`; decoded JSON stays unchanged.
    """
    dump = getattr(message, "model_dump", None)
    if callable(dump) and not isinstance(message, type):
        return dump(mode="json", by_alias=True)
    if depth < _DEPTH and isinstance(message, list):
        return [decode(part, depth + 1) for part in message]
    if depth < _DEPTH and isinstance(message, dict):
        return {name: decode(part, depth + 1) for name, part in message.items()}
    return message


def write_results(
    provider: str,
    calls: Sequence[ModelCall],
    outcomes: Sequence[Outcome],
    *,
    leave_unknown: bool,
    carry: Carry = DEFAULT_CARRY,
) -> Executed:
    """Write the messages with the results of `calls`. With `leave_unknown`, calls of tools that the registry does not
    have are left to the program. Calls with freeform text instead of arguments are always left to the program, as no
    tool of a registry accepts them. Raises UnknownFormat.
    """
    results = [
        None if _is_left(call, outcome, leave_unknown) else outcome.as_result()
        for call, outcome in zip(calls, outcomes, strict=True)
    ]
    written: WrittenMessages = message_format(provider).write_results(calls, results, carry)
    return Executed(written.messages, tuple(outcomes), written.pending, written.report)


def _is_left(call: ModelCall, outcome: Outcome, leave_unknown: bool) -> bool:
    """Whether a call is left to the program that uses the registry, and therefore gets no result."""
    return call.valid and isinstance(outcome.error, UnknownFunction) and (leave_unknown or call.kind == CUSTOM)
