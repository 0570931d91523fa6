"""Translation of stored turns between formats, for a conversation that continues at a provider of another family.

Pure module.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from fairlead_formats.neutral.conversation import match_results
from fairlead_formats.pairs.families import FAMILIES
from fairlead_formats.wire.protocol import StoredTurn, TranslationLosses

_decode: Final = msgspec.json.Decoder().decode
_encode: Final = msgspec.json.Encoder().encode


def translate_turn(turn: StoredTurn, name: str) -> StoredTurn | None:
    """The turn in the format `name`; None if the turn is unreadable or one of the two formats has no translation."""
    source, target = FAMILIES.get(turn.format), FAMILIES.get(name)
    if source is None or target is None:
        return None
    if source is target:
        return turn
    losses = TranslationLosses()
    try:
        messages: list[Any] = [_decode(message) for message in turn.messages]
        results: list[Any] = [_decode(message) for message in turn.results]
        turns = match_results(source.messages.read_messages([*messages, *results], losses))
    except (ValueError, RecursionError):
        return None
    # `StoredTurn.results` begins after the last message of the model
    last_index = max((index for index, other_turn in enumerate(turns) if other_turn.role == "assistant"), default=-1)
    messages_before = target.messages.write_messages(turns[: last_index + 1], losses).messages
    all_messages = target.messages.write_messages(turns, losses).messages
    result_messages = all_messages[len(messages_before) :]
    return StoredTurn(
        target.name,
        [_encode(message) for message in messages_before],
        [_encode(message) for message in result_messages],
    )
