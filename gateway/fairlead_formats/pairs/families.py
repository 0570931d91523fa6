"""Registry of the families of APIs to which the gateway sends requests. Pure module.

A new family is one row in each table.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from fairlead_formats.neutral.translation import FamilyTranslation
from fairlead_formats.providers.anthropic import counting as anthropic_counting
from fairlead_formats.providers.anthropic import format as anthropic
from fairlead_formats.providers.bedrock import counting as bedrock_counting
from fairlead_formats.providers.bedrock import format as bedrock
from fairlead_formats.providers.gemini import counting as gemini_counting
from fairlead_formats.providers.gemini import format as gemini
from fairlead_formats.providers.openai_chat import format as openai_chat
from fairlead_formats.providers.openai_responses import compaction as openai_compaction
from fairlead_formats.providers.openai_responses import counting as openai_counting
from fairlead_formats.providers.openai_responses import format as openai_responses
from fairlead_formats.wire.protocol import CountFormat, WireFormat
from fairlead_formats.wire.provider_api import ProviderKind

FORMAT_OF_KIND: Final[Mapping[ProviderKind, WireFormat]] = {
    "openai": openai_chat.CHAT,
    "anthropic": anthropic.ANTHROPIC,
    "gemini": gemini.GEMINI_EVENTS,
    "bedrock": bedrock.BEDROCK,
}
"""Maps a kind of provider to the format that all its providers accept. Some of kind `openai` also accept Responses."""
CLIENT_FORMATS: Final[Mapping[str, WireFormat]] = {
    "chat": openai_chat.CHAT,
    "responses": openai_responses.RESPONSES,
    "compaction": openai_compaction.COMPACTION,
    "messages": anthropic.ANTHROPIC,
    "gemini": gemini.GEMINI_EVENTS,
    "gemini-array": gemini.GEMINI_ARRAY,
    "converse": bedrock.BEDROCK,
}
"""Formats of clients' requests, by the names in `ApiOperation.wire`."""
COUNTING: Final[Mapping[ProviderKind, CountFormat]] = {
    "openai": openai_counting.COUNTING,
    "anthropic": anthropic_counting.COUNTING,
    "gemini": gemini_counting.COUNTING,
    "bedrock": bedrock_counting.COUNTING,
}
"""Formats of requests that count tokens, by kind of provider. OpenAI's API counts only requests of Responses."""
FAMILIES: Final[Mapping[str, FamilyTranslation]] = {
    family.name: family
    for family in (
        openai_chat.TRANSLATION,
        openai_responses.TRANSLATION,
        anthropic.TRANSLATION,
        gemini.TRANSLATION,
        bedrock.TRANSLATION,
    )
}
"""Translations from and to the neutral form, by the name of the family's format."""
