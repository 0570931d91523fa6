"""The formats by name: those of every folder in `providers`.

Pure module. Names are matched without regard to case, and `_`, space and `-` count as one; a format also goes by the
names that people and configurations give it.
"""

from __future__ import annotations

import pkgutil
from importlib import import_module
from typing import Final

from fairlead_formats import providers
from fairlead_formats.messages.base import MessageFormat
from fairlead_formats.provider import ProviderFormat
from fairlead_formats.providers.anthropic.tools import ANTHROPIC
from fairlead_formats.providers.gemini.tools import GEMINI
from fairlead_formats.providers.mcp.tools import MCP
from fairlead_formats.providers.openai_chat.tools import AZURE_OPENAI, OPENAI_CHAT, OPENAI_FUNCTIONS
from fairlead_formats.providers.openai_responses.tools import OPENAI_RESPONSES
from fairlead_formats.tool_format import Format

__all__ = ["ANTHROPIC", "AZURE_OPENAI", "GEMINI", "MCP", "OPENAI_CHAT", "OPENAI_FUNCTIONS", "OPENAI_RESPONSES"]
"""Names of the formats that code, and not a caller, chooses."""

PROVIDER_FORMATS: Final[dict[str, ProviderFormat]] = {
    provided.tools.name: provided
    for folder in sorted(pkgutil.iter_modules(providers.__path__), key=lambda folder: folder.name)
    for provided in import_module(f"{providers.__name__}.{folder.name}.tools").FORMATS
}
"""All formats, in the order of their folders."""
FORMATS: Final[dict[str, Format]] = {name: provided.tools for name, provided in PROVIDER_FORMATS.items()}
"""Formats of tool definitions."""


class UnknownFormat(ValueError):
    """A name that is not the name or alias of a format; the message lists the known names."""

    def __init__(self, name: str) -> None:
        super().__init__(f"there is no format {name[:64]!r}; known are {', '.join(FORMATS)}")
        self.name = name
        self.known = tuple(FORMATS)


_CANONICAL: Final = {alias: name for name, format_ in FORMATS.items() for alias in (name, *format_.aliases)}


def canonical(name: str) -> str:
    """The name of a format, from any name it goes by. Raises UnknownFormat."""
    key = "-".join(name.strip().lower().replace("_", " ").replace("-", " ").split())
    try:
        return _CANONICAL[key]
    except KeyError:
        raise UnknownFormat(name) from None


def find(name: str) -> Format:
    """The format of tool definitions by name or alias. Raises UnknownFormat, which names the known ones."""
    return FORMATS[canonical(name)]


def message_format(name: str) -> MessageFormat:
    """The format of calls and results by name or alias. Raises UnknownFormat, which names the known ones."""
    return PROVIDER_FORMATS[canonical(name)].messages
