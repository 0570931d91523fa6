"""The caller's own tools in the provider's form, and which of them the model may call. Pure module."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from fairlead_formats.registry import find
from fairlead_formats.tool_format import Action
from fairlead_formats.tools.between import between
from fairlead_llm.between.conversation import ToolChoice
from fairlead_llm.between.custom_tools import as_functions
from fairlead_llm.between.losses import TranslationLosses

_QUIET = frozenset({"title", "$schema", "examples", "default"})
"""Keywords whose absence changes no call."""


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


def translated_tools(tools: object, source: str, target: str, losses: TranslationLosses) -> TranslatedTools:
    """The tools of a request; the losses of each keyword are reported by its name."""
    if not tools:
        return TranslatedTools([], {})
    functions, custom = as_functions(tools, source, losses)
    found = between(functions, find(source), find(target))
    for loss in found.report:
        if loss.action is Action.REFUSED:
            losses.add("tools.refused")
        elif loss.lossy and loss.keyword not in _QUIET:
            losses.add(f"tools.{loss.keyword}")
    properties = {found.names[name]: names for name, names in found.properties.items()}
    return TranslatedTools(found.tools, found.names, custom, properties)


def translated_choice(
    choice: ToolChoice | None, tools: TranslatedTools, losses: TranslationLosses
) -> ToolChoice | None:
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
