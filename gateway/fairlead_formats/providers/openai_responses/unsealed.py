"""Requests without the reasoning that only the model which encrypted it takes. Pure module."""

from __future__ import annotations

from typing import Any, Final

import msgspec
from msgspec import Raw

from fairlead_formats.providers.openai_responses.items import CALL, CUSTOM_CALL, REASONING, encode, head_of, members_of
from fairlead_formats.wire.raw_json import array

_raws: Final = msgspec.json.Decoder(list[Raw]).decode


def without_thoughts(body: bytes, kept: int) -> bytes | None:
    """The request without items of reasoning, but for those among its last `kept` items; None where there are none.

    Calls lose their ids: a provider that knows one looks for the reasoning that it belongs to.
    """
    members: dict[str, Any] = dict(members_of(body))
    given = members.get("input")
    items = _raws(given) if given is not None and bytes(given)[:1] == b"[" else []
    early = len(items) - kept
    heads = [head_of(item) for item in items[:early]]
    if not any(head.kind == REASONING for head in heads):
        return None
    left = [
        _without_id(item) if head.kind in (CALL, CUSTOM_CALL) else item
        for item, head in zip(items, heads, strict=False)
        if head.kind != REASONING
    ]
    return encode({**members, "input": Raw(array([*left, *items[early:]]))})


def _without_id(item: Raw) -> Raw:
    return Raw(encode({name: raw for name, raw in members_of(item).items() if name != "id"}))
