"""Sentences that several commands say, and commands in them that can be pasted as they stand."""

from __future__ import annotations

from contextvars import ContextVar
from typing import Final

from fairlead_formats import names
from fairlead_tools.commands import add_url

CREDENTIAL: Final = "Give a credential with --token, or FAIRLEAD_TOKEN in the environment."
_TOOLS: Final = "`fairlead tools` lists what there is."
NAMED_URL: ContextVar[str] = ContextVar("NAMED_URL", default="")
"""Gateway that the command line named with `--url`: commands of hints name it too. Empty where it needs no name."""


def ready_to_paste(text: str) -> str:
    """A text whose `fairlead` commands reach the gateway that this command was about."""
    return add_url(text, NAMED_URL.get())


def unknown_tool(name: str, near: str | None) -> str:
    """A tool that does not exist, the one that was probably meant, and where to look."""
    return after(names.unknown_tool(name, near), _TOOLS)


def look_at_tools(problem: str) -> str:
    """`problem`, the gateway's own sentence about an unknown tool, and where to look."""
    return after(problem, _TOOLS)


def after(sentence: str, advice: str) -> str:
    """Two sentences."""
    return f"{sentence}{'' if sentence.endswith(('.', '?', '!')) else '.'} {advice}"
