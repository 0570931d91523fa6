"""Declaration of one format of a provider, as each folder of `providers` makes it.

Pure module.
"""

from __future__ import annotations

import msgspec

from fairlead_formats.messages.base import MessageFormat
from fairlead_formats.tool_format import Format


class ProviderFormat(msgspec.Struct, frozen=True, kw_only=True):
    """One format of a provider: tool definitions, messages, and the token cost of definitions."""

    tools: Format
    """Tool definitions, and the name, title and aliases of the format."""
    messages: MessageFormat
    """Calls and results. Formats with equal messages share one object, so that no conversion is needed between them."""
    token_growth: int = 1000
    """Size of definitions in this format per 1,000 in MCP's, as a mean over 1,282 public MCP tools, rounded up. Inlined
    references and constraints moved into descriptions make them grow, a single tool by up to 1,620. Never below 1,000,
    also for formats that shrink definitions (Gemini's `parameters`: 960)."""
    families: tuple[str, ...] = ()
    """Model families (`tokens.models.Family`) that a route calls in this format unless it names another."""
