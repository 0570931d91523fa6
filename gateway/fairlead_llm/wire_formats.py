"""Which wire format a provider is spoken to in. Pure module."""

from __future__ import annotations

from fairlead_formats.pairs.families import FORMAT_OF_KIND
from fairlead_formats.pairs.pair import pair
from fairlead_formats.providers.openai_responses.format import RESPONSES
from fairlead_formats.wire.protocol import WireFormat
from fairlead_models.providers import Provider


def spoken(front: WireFormat, provider: Provider) -> WireFormat:
    """The format in which a client's request goes to a provider: the client's own where the provider speaks it, else a
    pair of the client's and the provider's. Equal arguments give the same object. Of the two APIs of OpenAI clients of
    other families get Responses where it is there: what a model thought between its calls stays with it.
    """
    if speaks(provider, front):
        return front
    return pair(front, RESPONSES if provider.speaks_responses else FORMAT_OF_KIND[provider.kind])


def speaks(provider: Provider, front: WireFormat) -> bool:
    """Whether a provider speaks the format of a client."""
    if front is RESPONSES:
        return provider.speaks_responses
    return front.name == FORMAT_OF_KIND[provider.kind].name
