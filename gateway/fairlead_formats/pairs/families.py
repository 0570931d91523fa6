"""Registry of the families that requests are sent to: a new family is one row in each table. Pure module."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from fairlead_formats.neutral.translation import FamilyTranslation
from fairlead_formats.provider import ProviderKind
from fairlead_formats.providers.anthropic import format as anthropic
from fairlead_formats.providers.gemini import format as gemini
from fairlead_formats.providers.openai_chat import format as openai_chat
from fairlead_formats.providers.openai_responses import format as openai_responses
from fairlead_formats.wire.protocol import WireFormat

FORMAT_OF_KIND: Final[Mapping[ProviderKind, WireFormat]] = {
    "openai": openai_chat.CHAT,
    "anthropic": anthropic.ANTHROPIC,
    "gemini": gemini.GEMINI_EVENTS,
}
"""Format of all providers of a kind; some providers of kind `openai` accept Responses as well."""
FAMILIES: Final[Mapping[str, FamilyTranslation]] = {
    family.name: family
    for family in (
        openai_chat.TRANSLATION,
        openai_responses.TRANSLATION,
        anthropic.TRANSLATION,
        gemini.TRANSLATION,
    )
}
"""Families by the name of their format."""
