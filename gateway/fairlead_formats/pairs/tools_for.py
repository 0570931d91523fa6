"""Translates the caller's own tools into the provider's form. Pure module."""

from __future__ import annotations

from fairlead_formats.neutral.losses import TranslationLosses
from fairlead_formats.neutral.tools import TranslatedTools
from fairlead_formats.pairs.custom_tools import as_functions
from fairlead_formats.registry import find
from fairlead_formats.tool_format import Action
from fairlead_formats.tools.between import between

_QUIET = frozenset({"title", "$schema", "examples", "default"})
"""Keywords whose absence changes no call."""


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
