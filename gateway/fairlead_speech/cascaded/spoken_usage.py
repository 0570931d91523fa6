"""Tokens of an engine's model, as sessions of speech state them. Pure module."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from fairlead_models.request_record import TokenUsage, estimate_tokens, token_usage
from fairlead_speech.realtime_events import Event

_CHARACTERS: Final = 4
"""Characters of an answer that are about a token."""


def response_usage(stated: Mapping[str, Any], taken: Mapping[str, Any] | None, characters: int) -> Event:
    """Usage of a response. Where the model has `taken` a request and has not stated its tokens, as one that is
    cancelled does not, they are estimated: by the request, and by the `characters` that the model wrote.
    """
    used = token_usage(stated)
    if taken is not None and not used.total:
        used = TokenUsage(estimate_tokens(msgspec.json.encode(taken)), characters // _CHARACTERS)
    return {
        "total_tokens": used.total,
        "input_tokens": used.input,
        "output_tokens": used.output,
        "input_token_details": {"cached_tokens": used.cached, "text_tokens": used.input, "audio_tokens": 0},
        "output_token_details": {"text_tokens": used.output, "audio_tokens": 0},
    }
