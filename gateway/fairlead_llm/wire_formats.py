"""Which wire formats there are, and which of them a provider is spoken to in. Pure module."""

from __future__ import annotations

from fairlead_llm.chat.format import CHAT
from fairlead_llm.providers import Provider
from fairlead_llm.wire import WireFormat


def spoken(front: WireFormat, provider: Provider) -> WireFormat:
    """The format in which a client's request goes to a provider: the client's own where the provider speaks it, else a
    pair of the client's and the provider's. Equal arguments give the same object.
    """
    return CHAT
