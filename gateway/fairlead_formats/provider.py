"""Declaration of a format of a provider. Each folder of `providers` declares its formats in `tools.FORMATS`.

Pure module.
"""

from __future__ import annotations

import msgspec

from fairlead_formats.messages.base import MessageFormat
from fairlead_formats.tool_format import Format


class ProviderFormat(msgspec.Struct, frozen=True, kw_only=True):
    """One format of a provider: tool definitions, messages, and the token cost of definitions."""

    tools: Format
    """Converter of tool definitions, with the name, title and aliases of the format."""
    messages: MessageFormat
    """Reader and writer of calls and results. Formats with equal messages share one object, which shows that no
    conversion is needed between them.
    """
    token_growth: int = 1000
    """Tokens of definitions in this format per 1,000 tokens in MCP's form: the mean over 1,282 public MCP tools,
    rounded up. Definitions grow because references are inlined and constraints move into descriptions; a single
    definition grew to as much as 1,620. The value is at least 1,000 even for a format that shrinks definitions
    (Gemini's `parameters`: 960).
    """
    families: tuple[str, ...] = ()
    """Model families (`tokens.models.Family`) whose models a route calls in this format, unless the route names
    another format.
    """
