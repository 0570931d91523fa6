"""Replaces the gateway's ids in answers by the provider's, to compare them with the provider's answers."""

from __future__ import annotations

import re
from typing import Any, Final

from fairlead_formats.providers.gemini.carried_ids import read_carried_id

_MADE: Final = re.compile(r"(?:call|toolu|rs)_f[lx]-[A-Za-z0-9]{22}-|\.fairlead-[0-9a-f]{48}-[0-9]+\Z")
_SIGNATURES: Final = ("thoughtSignature", "thought_signature")


def with_provider_ids(value: Any) -> Any:
    """The value with the provider's ids of calls and items, and with signatures of thoughts that carry no ids, at any
    depth.
    """
    if isinstance(value, str):
        return _MADE.sub("", value)
    if isinstance(value, dict):
        own = {
            key: read_carried_id(item)[1]
            for key, item in value.items()
            if key in _SIGNATURES and read_carried_id(item)[0]
        }
        return {key: with_provider_ids(item) for key, item in (value | own).items() if own.get(key) != ""}
    if isinstance(value, list | tuple):
        return type(value)(map(with_provider_ids, value))
    return value
