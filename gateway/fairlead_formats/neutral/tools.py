"""The caller's own tools in the provider's form, and which of them the model may call. Pure module."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from fairlead_formats.neutral.conversation import ToolChoice
from fairlead_formats.wire.losses import TranslationLosses


class TranslatedTools(msgspec.Struct, frozen=True):
    """Definitions as they stand in the provider's request."""

    definitions: list[Any]
    names: Mapping[str, str]
    """Name that the model calls to the caller's own."""
    custom: frozenset[str] = frozenset()
    """The caller's names of custom tools, which the model has as functions."""
    properties: Mapping[str, Mapping[str, str]] = {}
    """By the caller's name of a tool: names of its properties to the caller's own, where the model has other ones."""

    @property
    def forward(self) -> dict[str, str]:
        """The caller's own name to the one that the model calls."""
        return {own: name for name, own in self.names.items()}

    @property
    def forward_properties(self) -> dict[str, dict[str, str]]:
        """By the caller's name of a tool: its names of properties to those that the model has."""
        return {tool: {own: name for name, own in names.items()} for tool, names in self.properties.items()}


def translate_choice(choice: ToolChoice | None, tools: TranslatedTools, losses: TranslationLosses) -> ToolChoice | None:
    """The choice under the provider's names; None where no tool is left that it could mean."""
    if choice is None or not tools.definitions:
        return None
    forward, wanted = tools.forward, dict.fromkeys(choice.names)
    names = tuple(forward[name] for name in wanted if name in forward)
    if len(names) < len(wanted):
        losses.add("tool_choice")
        if not names:
            return ToolChoice("auto")
    return ToolChoice(choice.mode, names)
