"""Data for the page of a tool: definition, annotations, and its conversion for each provider."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from fairlead_formats.tokens.models import CLAUDE_4_7, GEMINI, OPENAI, Family
from fairlead_formats.tool_format import Loss, Options
from fairlead_offers.catalogs.subject_catalog import SubjectCatalog
from fairlead_offers.conversion.formats import find_format
from fairlead_offers.plan.offered_tools import candidates, convert_tools
from fairlead_offers.services import ToolServices

MAX_TEXT: Final = 16_000
"""Maximum length of one JSON text on the page, in characters."""
_FORMATS: Final[tuple[tuple[str, str, Family], ...]] = (
    ("openai-chat", "OpenAI Chat", OPENAI),
    ("openai-responses", "OpenAI Responses", OPENAI),
    ("anthropic", "Anthropic", CLAUDE_4_7),
    ("gemini", "Gemini", GEMINI),
    ("bedrock-converse", "Bedrock Converse", CLAUDE_4_7),
)
_HINTS: Final[Mapping[str, str]] = {
    "readOnlyHint": "reads only",
    "destructiveHint": "may destroy",
    "idempotentHint": "idempotent",
    "openWorldHint": "reaches the outside world",
}


class ProviderForm(msgspec.Struct, frozen=True):
    """Tool as it is written in requests to one provider."""

    title: str
    tokens: int | None
    """Tokens of the definition for the newest models of a family, such as Claude; None while they are being counted."""
    losses: tuple[Loss, ...]
    text: str


class ToolFacts(msgspec.Struct, frozen=True):
    """Facts about a tool, without measurements."""

    name: str
    id: str
    server: str
    title: str
    description: str
    """Cut at MAX_TEXT characters."""
    offline: bool
    tags: tuple[str, ...]
    categories: tuple[str, ...]
    hints: tuple[tuple[str, bool], ...]
    """Annotations of the server, which are not verified, with their values."""
    definition: str
    input_schema: Any
    forms: tuple[ProviderForm, ...]


async def tool_facts(
    services: ToolServices, catalog: SubjectCatalog, name: str, *, count_tokens: bool = True
) -> ToolFacts:
    """Collect the facts about a visible or hidden tool; tokens only with `count_tokens`. Raises Problem.

    Must be awaited in `run_in_steps`.
    """
    tools = services.catalogs.visible_tools(catalog, None)
    entry = tools.find(name) or tools.find_hidden(name) or tools.tool(name)
    size = (await candidates(services.work, [entry]))[0].tokens if count_tokens else None
    forms = []
    for format_name, title, family in _FORMATS:
        offer = await convert_tools(services.work, tools, [entry], find_format(format_name), Options())
        tokens = None if size is None else -(-size * family.tools // 1000)
        forms.append(ProviderForm(title, tokens, offer.report, pretty(offer.tools)))
    definition = entry.decoded_definition
    annotations = definition.get("annotations")
    hints = annotations if isinstance(annotations, dict) else {}
    return ToolFacts(
        name=entry.name,
        id=entry.id,
        server=str(entry.server),
        title=_text(definition.get("title") or hints.get("title")),
        description=_text(definition.get("description")),
        offline=entry.offline,
        tags=entry.entry.tags,
        categories=entry.entry.categories,
        hints=tuple((words, bool(hints[hint])) for hint, words in _HINTS.items() if hint in hints),
        definition=pretty(definition),
        input_schema=definition.get("inputSchema"),
        forms=tuple(forms),
    )


def pretty(value: Any) -> str:
    """Format a value as indented JSON, cut at MAX_TEXT characters."""
    text = json.dumps(value, indent=2, ensure_ascii=False)
    return text if len(text) <= MAX_TEXT else f"{text[:MAX_TEXT]}\n… {len(text) - MAX_TEXT:,} more characters"


def _text(value: Any) -> str:
    if not isinstance(value, str):
        return ""
    return value if len(value) <= MAX_TEXT else f"{value[:MAX_TEXT]} …"
