"""Which wire formats there are, and which of them a provider is spoken to in. Pure module."""

from __future__ import annotations

from typing import Final

from fairlead_llm.anthropic.format import ANTHROPIC
from fairlead_llm.chat.format import CHAT
from fairlead_llm.errors import LlmError
from fairlead_llm.providers import Provider
from fairlead_llm.wire import WireFormat

_KINDS: Final = {CHAT.name: "openai", ANTHROPIC.name: "anthropic"}
"""By name of a format: the kind of providers that speak it."""


def spoken(front: WireFormat, provider: Provider) -> WireFormat:
    """The format in which a client's request goes to a provider: the client's own where the provider speaks it, else a
    pair of the client's and the provider's. Equal arguments give the same object. Raises LlmError where there is none.
    """
    if _KINDS[front.name] != provider.kind:
        raise LlmError(
            400, f"requests of this API do not go to providers of the kind {provider.kind}", "invalid_request"
        )
    return front
