"""Sentences that several commands say. Pure."""

from __future__ import annotations

from typing import Final

from fairlead_formats import names

_TOOLS: Final = "`fairlead tools` lists what there is."


def unknown_tool(name: str, near: str | None) -> str:
    """A tool that does not exist, the one that was probably meant, and where to look."""
    return after(names.unknown_tool(name, near), _TOOLS)


def look_at_tools(found: str) -> str:
    """`found`, the gateway's own sentence about an unknown tool, and where to look."""
    return after(found, _TOOLS)


def after(sentence: str, advice: str) -> str:
    """Two sentences."""
    return f"{sentence}{'' if sentence.endswith(('.', '?', '!')) else '.'} {advice}"
