"""Which wire formats there are, and which of them a provider is spoken to in. Pure module."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from fairlead_llm.chat.format import CHAT
from fairlead_llm.gemini.format import GEMINI_EVENTS
from fairlead_llm.providers import Provider, ProviderKind
from fairlead_llm.wire import WireFormat

_FORMATS: Final[Mapping[ProviderKind, str]] = {"openai": CHAT.name, "gemini": GEMINI_EVENTS.name}


def spoken(front: WireFormat, provider: Provider) -> WireFormat | None:
    """The format in which a client's request goes to a provider: the client's own where the provider speaks it, else a
    pair of the client's and the provider's. Equal arguments give the same object. None where there is no such pair.
    """
    return front if format_of(provider) == front.name else None


def format_of(provider: Provider) -> str | None:
    """Name of the format that a provider speaks; None where that is not spoken here."""
    return _FORMATS.get(provider.kind)
