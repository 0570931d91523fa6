"""Sentences that several commands print, and commands within sentences that are ready to paste."""

from __future__ import annotations

from contextvars import ContextVar
from typing import Final

from fairlead_formats import names
from fairlead_tools.commands import add_url

CREDENTIAL: Final = "Give a credential with --token, or FAIRLEAD_TOKEN in the environment."
_TOOLS: Final = "`fairlead tools` lists the tools."
NAMED_URL: ContextVar[str] = ContextVar("NAMED_URL", default="")
"""URL of the gateway that `--url` named, which is added to the commands in hints. Empty if hints need no `--url`."""


def ready_to_paste(text: str) -> str:
    """The text with its `fairlead` commands directed at the gateway of this command."""
    return add_url(text, NAMED_URL.get())


def unknown_tool(name: str, near: str | None) -> str:
    """Sentence about a tool that does not exist, with a similar name, and where to look."""
    return with_advice(names.unknown_tool(name, near), _TOOLS)


def with_tools_hint(problem: str) -> str:
    """Append where to look to `problem`, the gateway's sentence about an unknown tool."""
    return with_advice(problem, _TOOLS)


def with_advice(sentence: str, advice: str) -> str:
    """Join a sentence and an advice."""
    return f"{sentence}{'' if sentence.endswith(('.', '?', '!')) else '.'} {advice}"
