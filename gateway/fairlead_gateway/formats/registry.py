"""The formats by name.

Pure module. Names are matched without regard to case, and `_`, space and `-` count as one; a format also goes by the
names that people and configurations give it.
"""

from __future__ import annotations

from typing import Final

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
