"""The formats by name.

Pure module. Names are matched without regard to case, and `_`, space and `-` count as one; a format also goes by the
names that people and configurations give it.
"""

from __future__ import annotations

from typing import Final

from fairlead_formats.tools import envelopes, families
from fairlead_formats.tools.canonical import McpFormat
from fairlead_formats.tools.definitions import Envelope, ToolFormat
from fairlead_formats.tools.format import Format

MCP: Final = "mcp"
OPENAI_CHAT: Final = "openai-chat"
OPENAI_FUNCTIONS: Final = "openai-functions"
OPENAI_RESPONSES: Final = "openai-responses"
OPENAI_REALTIME: Final = "openai-realtime"
AZURE_OPENAI: Final = "azure-openai"
ANTHROPIC: Final = "anthropic"
GEMINI: Final = "gemini"
GEMINI_LIVE: Final = "gemini-live"
BEDROCK_CONVERSE: Final = "bedrock-converse"

ALIASES: Final[dict[str, tuple[str, ...]]] = {
    MCP: ("model-context-protocol",),
    OPENAI_CHAT: ("openai", "chat", "openai-chat-completions", "chat-completions", "litellm", "vllm", "ollama"),
    OPENAI_FUNCTIONS: ("functions", "openai-function", "function-call", "openai-legacy"),
    OPENAI_RESPONSES: ("responses",),
    OPENAI_REALTIME: ("realtime",),
    AZURE_OPENAI: ("azure", "azure-openai-chat"),
    ANTHROPIC: ("claude", "anthropic-messages", "messages"),
    GEMINI: ("google", "google-genai", "vertex", "vertex-ai"),
    GEMINI_LIVE: ("google-live", "gemini-realtime"),
    BEDROCK_CONVERSE: ("bedrock", "converse", "aws-bedrock"),
}


class UnknownFormat(ValueError):
    """A name that no format goes by; the message names the known ones."""

    def __init__(self, name: str) -> None:
        super().__init__(f"there is no format {name[:64]!r}; known are {', '.join(ALIASES)}")
        self.name = name
        self.known = tuple(ALIASES)


_CANONICAL: Final = {alias: name for name, aliases in ALIASES.items() for alias in (name, *aliases)}


def canonical(name: str) -> str:
    """The name of a format, from any name it goes by. Raises UnknownFormat."""
    key = "-".join(name.strip().lower().replace("_", " ").replace("-", " ").split())
    try:
        return _CANONICAL[key]
    except KeyError:
        raise UnknownFormat(name) from None


def find(name: str) -> Format:
    """The format that goes by a name, in any case. Raises UnknownFormat, which names the known ones."""
    return FORMATS[canonical(name)]


_OPENAI_TOOLS: Final = 128
_OPENAI_DESCRIPTION: Final = 1024
_GEMINI_TOOLS: Final = 512
_ANTHROPIC_STRICT: Final = 20


def _openai(name: str, title: str, envelope: Envelope, *, strict: bool) -> ToolFormat:
    targets = families.openai if strict else families.openai_lax
    return ToolFormat(
        name, title, ALIASES[name], envelope, targets, max_tools=_OPENAI_TOOLS, max_description=_OPENAI_DESCRIPTION
    )


_EVERY: Final[tuple[Format, ...]] = (
    McpFormat(MCP, ALIASES[MCP]),
    _openai(OPENAI_CHAT, "OpenAI Chat Completions", envelopes.CHAT, strict=True),
    _openai(OPENAI_FUNCTIONS, "OpenAI functions (before tools)", envelopes.FUNCTIONS, strict=False),
    _openai(OPENAI_RESPONSES, "OpenAI Responses", envelopes.RESPONSES, strict=True),
    _openai(OPENAI_REALTIME, "OpenAI Realtime", envelopes.REALTIME, strict=False),
    _openai(AZURE_OPENAI, "Azure OpenAI", envelopes.CHAT, strict=True),
    ToolFormat(
        ANTHROPIC,
        "Anthropic Messages",
        ALIASES[ANTHROPIC],
        envelopes.ANTHROPIC,
        families.anthropic,
        max_strict=_ANTHROPIC_STRICT,
    ),
    ToolFormat(GEMINI, "Gemini", ALIASES[GEMINI], envelopes.GEMINI, families.gemini, max_tools=_GEMINI_TOOLS),
    ToolFormat(
        GEMINI_LIVE,
        "Gemini Live",
        ALIASES[GEMINI_LIVE],
        envelopes.GEMINI_LIVE,
        families.gemini_live,
        max_tools=_GEMINI_TOOLS,
    ),
    ToolFormat(
        BEDROCK_CONVERSE,
        "Amazon Bedrock Converse",
        ALIASES[BEDROCK_CONVERSE],
        envelopes.BEDROCK,
        families.bedrock,
        needs_description=True,
    ),
)
FORMATS: Final[dict[str, Format]] = {known.name: known for known in _EVERY}
