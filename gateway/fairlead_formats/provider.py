"""Declaration of one format, as folders of `providers` make it.

Pure module.
"""

from __future__ import annotations

import msgspec

from fairlead_formats.messages.base import MessageFormat
from fairlead_formats.tool_format import Format


class ProviderFormat(msgspec.Struct, frozen=True, kw_only=True):
    """One format of a provider: tool definitions, messages, and the tokens that definitions cost in it."""

    tools: Format
    """Definitions; has the name, title and aliases of the format."""
    messages: MessageFormat
    """Formats whose messages are the same share one object; between them, messages are passed on unchanged."""
    token_growth: int = 1000
    """Size of definitions in this format for 1,000 in MCP's: what is inlined, and what moves into descriptions. Means
    over 1,282 public MCP tools, rounded up, and never below 1,000 for formats that shrink them (Gemini's `parameters`:
    960); a single tool grows by up to 1,620."""
    families: tuple[str, ...] = ()
    """Families of models (`tokens.models.Family`) that routes ask in this format unless they name another."""
