"""A model's message: its calls read, and their outcomes written in the form in which they came. Pure module."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from fairlead_client.outcomes import Outcome, UnknownFunction
from fairlead_formats.messages.call import CUSTOM, DEFAULT_CARRY, Carry, ModelCall, ResultLoss, Written
from fairlead_formats.registry import message_format
from fairlead_formats.tool_format import JsonObject

_DEPTH: Final = 3
"""Levels of lists and objects in which an SDK's object may stand: message, content, part."""


@dataclass(frozen=True)
class Executed:
    """Outcomes of the calls in a model's message."""

    messages: tuple[JsonObject, ...]
    """To be appended to the conversation, behind the model's message."""
    outcomes: tuple[Outcome, ...]
    """In the order of the calls."""
    pending: tuple[str, ...]
    """Ids of the calls that were left to the caller."""
    report: tuple[ResultLoss, ...]
    """Parts of the results that the format does not hold as they were."""


def decode(message: object, depth: int = 0) -> object:
    """A message as decoded JSON, whether it is that already or an object of a provider's SDK: those are pydantic's, and
    known by their method alone. Also looks into lists and objects, where such an object may be a part.
    """
    dump = getattr(message, "model_dump", None)
    if callable(dump) and not isinstance(message, type):
        return dump(mode="json", by_alias=True)
    if depth < _DEPTH and isinstance(message, list):
        return [decode(part, depth + 1) for part in message]
    if depth < _DEPTH and isinstance(message, dict):
        return {name: decode(part, depth + 1) for name, part in message.items()}
    return message


def with_results(
    provider: str,
    calls: Sequence[ModelCall],
    outcomes: Sequence[Outcome],
    *,
    leave_unknown: bool,
    carry: Carry = DEFAULT_CARRY,
) -> Executed:
    """The messages that answer `calls`. With `leave_unknown`, calls of tools that the registry does not have stay
    pending: the caller has tools of its own. Freeform calls always do: no tool of a registry takes text in place of
    arguments. Raises UnknownFormat.
    """
    results = [
        None if _is_left(call, outcome, leave_unknown) else outcome.as_result()
        for call, outcome in zip(calls, outcomes, strict=True)
    ]
    written: Written = message_format(provider).write_results(calls, results, carry)
    return Executed(written.messages, tuple(outcomes), written.pending, written.report)


def _is_left(call: ModelCall, outcome: Outcome, leave_unknown: bool) -> bool:
    """Whether the caller answers a call itself."""
    return call.valid and isinstance(outcome.error, UnknownFunction) and (leave_unknown or call.kind == CUSTOM)
