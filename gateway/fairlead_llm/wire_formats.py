"""Which wire formats there are, and which of them a provider is spoken to in. Pure module."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from fairlead_llm.anthropic.format import ANTHROPIC
from fairlead_llm.between.pair import pair
from fairlead_llm.chat.format import CHAT
from fairlead_llm.gemini.format import GEMINI_EVENTS
from fairlead_llm.providers import Provider, ProviderKind
from fairlead_llm.responses.format import RESPONSES
from fairlead_llm.wire import WireFormat

_FORMATS: Final[Mapping[ProviderKind, tuple[WireFormat, ...]]] = {
    "openai": (CHAT,), "anthropic": (ANTHROPIC,), "gemini": (GEMINI_EVENTS,)
}  # fmt: skip
"""Formats by kind, the first of which is spoken for clients of another family."""


def spoken(front: WireFormat, provider: Provider) -> WireFormat | None:
    """The format in which a client's request goes to a provider: the client's own where the provider speaks it, else a
    pair of the client's and the provider's. Equal arguments give the same object. None where there is no such pair.
    """
    if speaks(provider, front):
        return front
    formats = _FORMATS.get(provider.kind, ())
    return pair(front, formats[0]) if formats else None


def speaks(provider: Provider, front: WireFormat) -> bool:
    """Whether a provider speaks the format of a client."""
    if front is RESPONSES:
        return provider.speaks_responses
    return front.name in [each.name for each in _FORMATS.get(provider.kind, ())]
