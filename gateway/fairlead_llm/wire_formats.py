"""Which wire formats there are, and which of them a provider is spoken to in. Pure module."""

from __future__ import annotations

from fairlead_llm.chat.format import CHAT
from fairlead_llm.providers import Provider
from fairlead_llm.responses.format import RESPONSES
from fairlead_llm.wire import WireFormat


class UnspokenFormat(ValueError):
    """A provider that cannot be asked in the client's format, and in no pair of it. The message says what to do."""


def spoken(front: WireFormat, provider: Provider) -> WireFormat:
    """The format in which a client's request goes to a provider: the client's own where the provider speaks it, else a
    pair of the client's and the provider's. Equal arguments give the same object. Raises UnspokenFormat.
    """
    if front is not RESPONSES:
        return CHAT
    if not provider.speaks_responses:
        raise UnspokenFormat(
            "the provider does not speak OpenAI Responses; set `responses: true` of it where its API has /responses"
        )
    return RESPONSES
