"""Tools of a request from a client of one family to a provider of another: definitions, names, and tool choice.

Pure module.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from fairlead_formats.neutral.conversation import ToolChoice
from fairlead_formats.wire.protocol import TranslationLosses


class TranslatedTools(msgspec.Struct, frozen=True):
    """Tool definitions in the form of the provider's request."""

    definitions: list[Any]
    names: Mapping[str, str]
    """Maps the name that the model calls to the client's name."""
    custom: frozenset[str] = frozenset()
    """The client's names of custom tools, which the model sees as functions."""
    properties: Mapping[str, Mapping[str, str]] = {}
    """By the client's tool name: maps the model's names of renamed properties to the client's."""

    @property
    def forward(self) -> dict[str, str]:
        """Maps the client's tool names to the names that the model calls."""
        return {client_name: name for name, client_name in self.names.items()}

    @property
    def forward_properties(self) -> dict[str, dict[str, str]]:
        """By the client's tool name: maps the client's property names to the model's."""
        return {
            tool: {client_name: name for name, client_name in names.items()} for tool, names in self.properties.items()
        }


def translate_choice(choice: ToolChoice | None, tools: TranslatedTools, losses: TranslationLosses) -> ToolChoice | None:
    """The choice with the provider's tool names; None if there is no choice or no tool."""
    if choice is None or not tools.definitions:
        return None
    forward, requested_names = tools.forward, dict.fromkeys(choice.names)
    names = tuple(forward[name] for name in requested_names if name in forward)
    if len(names) < len(requested_names):
        losses.add("tool_choice")
        if not names:
            return ToolChoice("auto")
    return ToolChoice(choice.mode, names)
