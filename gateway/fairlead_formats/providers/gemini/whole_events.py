"""Splits a whole answer of Gemini into stream events, for providers that ignore `alt=sse` or the method. Pure module.

Each event of a stream has the form of a whole answer, so the provider's document is one event, or an array of events.
"""

from __future__ import annotations

from typing import Final

import msgspec
from msgspec import Raw

from fairlead_formats.wire.protocol import BadAnswer

_decode_responses: Final = msgspec.json.Decoder(list[Raw]).decode


def whole_events(body: bytes) -> list[bytes]:
    """Data of the events. Raises BadAnswer."""
    if body.lstrip()[:1] != b"[":
        return [body]
    try:
        responses = [*map(bytes, _decode_responses(body))]
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise BadAnswer(f"the provider's answer is not an array of responses: {error}") from error
    if not responses:
        raise BadAnswer("the provider's answer is an empty array")
    return responses
