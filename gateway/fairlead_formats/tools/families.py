"""Which schema target a model reads, by format and by the family that its name tells.

Pure module, called by the formats. A name that tells nothing gets the narrowest rules of the format, which every
family takes.
"""

from __future__ import annotations

import re
from typing import Final

from fairlead_formats.schema import rules
from fairlead_formats.schema.rules import Target
from fairlead_formats.tools.format import GEMINI_JSON_SCHEMA, Options

Targets = tuple[Target, Target | None]
"""(the target, the strict one where strict is asked for and exists)"""

_GPT: Final = re.compile(r"(?:^|[/.:])gpt-(\d+)")
_CLAUDE: Final = re.compile(r"claude|anthropic", re.IGNORECASE)


def openai(options: Options) -> Targets:
    """Chat, Responses and Azure."""
    return openai_lax(options)[0], rules.OPENAI_STRICT if options.strict else None


def openai_lax(options: Options) -> Targets:
    """Realtime, and `functions` of old, which know no `strict`."""
    found = _GPT.search(options.model or "")
    return (rules.OPENAI_5 if found and int(found[1]) >= 5 else rules.OPENAI), None


def anthropic(options: Options) -> Targets:
    """Messages."""
    return rules.ANTHROPIC, rules.ANTHROPIC_STRICT if options.strict else None


def gemini(options: Options) -> Targets:
    """`generateContent`: the subset of OpenAPI or JSON Schema, as the caller chose."""
    return (rules.GEMINI_JSON if options.gemini_field == GEMINI_JSON_SCHEMA else rules.GEMINI), None


def gemini_live(options: Options) -> Targets:
    """Live reads `parameters` only and is silent about the other."""
    return rules.GEMINI, None


def bedrock(options: Options) -> Targets:
    """Converse; strict, and `$ref`, only for Claude."""
    if _CLAUDE.search(options.model or ""):
        return rules.BEDROCK_CLAUDE, rules.BEDROCK_STRICT if options.strict else None
    return rules.BEDROCK, None
