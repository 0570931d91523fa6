"""Registry of formats by name, filled from the folders of `providers`.

Pure module. Names are matched case-insensitively, with `_`, space and `-` equal. Formats also have aliases, the names
that documentation and configurations use for them.
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
"""Names of those formats that code refers to by a constant."""

PROVIDER_FORMATS: Final[dict[str, ProviderFormat]] = {
    provider_format.tools.name: provider_format
    for folder in sorted(pkgutil.iter_modules(providers.__path__), key=lambda folder: folder.name)
    for provider_format in import_module(f"{providers.__name__}.{folder.name}.tools").FORMATS
}
"""All formats, in the order of their folders."""
FORMATS: Final[dict[str, Format]] = {name: provider_format.tools for name, provider_format in PROVIDER_FORMATS.items()}
"""The tool definitions of all formats."""


class UnknownFormat(ValueError):
    """A name that is neither the name nor an alias of a format. The message lists all formats."""

    def __init__(self, name: str) -> None:
        super().__init__(f"{name[:64]!r} is not a format; use one of: {', '.join(FORMATS)}")
        self.name = name
        self.known = tuple(FORMATS)


_NAMES_BY_ALIAS: Final = {alias: name for name, format_ in FORMATS.items() for alias in (name, *format_.aliases)}


def canonical_name(name: str) -> str:
    """The name of a format, from its name or an alias. Raises UnknownFormat."""
    canonical = _NAMES_BY_ALIAS.get(name)
    if canonical is not None:  # as most callers write it
        return canonical
    key = "-".join(name.strip().lower().replace("_", " ").replace("-", " ").split())
    try:
        return _NAMES_BY_ALIAS[key]
    except KeyError:
        raise UnknownFormat(name) from None


def find(name: str) -> Format:
    """The format of tool definitions with this name or alias. Raises UnknownFormat, whose message lists all formats."""
    return FORMATS[canonical_name(name)]


def message_format(name: str) -> MessageFormat:
    """The format of calls and results with this name or alias. Raises UnknownFormat, which lists all formats."""
    return PROVIDER_FORMATS[canonical_name(name)].messages
