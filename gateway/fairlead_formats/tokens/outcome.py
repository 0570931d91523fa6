"""Outcomes of a plan: the tools that fit with the numbers, or a refusal with changes that would make it fit.

Pure declarations; `camel` names are those of the REST answer.
"""

from __future__ import annotations

from typing import Final

import msgspec

MAX_TOOLS: Final = "maxTools"
"""More tools than the route, the policy, the request or the provider allows."""
TOOL_TOKENS: Final = "toolTokens"
"""The tools' share of tokens is used up."""
CONTEXT_WINDOW: Final = "contextWindow"
"""The model's window is full."""


class Cut(msgspec.Struct, frozen=True, gc=False):
    """A tool that the model does not get."""

    name: str
    tokens: int
    """In the counter's tokens, before the model's factor."""
    reason: str
    """`maxTools`, `toolTokens` or `contextWindow`."""


class Numbers(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """Where the tokens go, in those of the model. `available` is what is left."""

    context_window: int
    tool_tokens: int
    system_prompt_tokens: int
    message_tokens: int
    reserved_output_tokens: int
    available: int
    counter: str
    """`o200k_base`, or `bytes/4` where that is an estimate."""
    family: str
    text_factor: float
    tool_factor: float
    window_source: str = ""
    max_input: int | None = None


class SkippedModel(msgspec.Struct, frozen=True, rename="camel"):
    """A model that does not hold everything."""

    model: str
    context_window: int
    lacking: int
    """Tokens by which it misses; 0: a limit on tools, not the window, stands against it."""
    without_tools: bool
    """Not even the conversation fits."""


class Plan(msgspec.Struct, frozen=True, rename="camel"):
    """The model and its tools."""

    model: str
    format: str
    tools: tuple[str, ...]
    """In the order of the candidates."""
    shortened: tuple[str, ...]
    """Those of `tools` to be shown with shortened descriptions (`shorten.shortened`)."""
    cut: tuple[Cut, ...]
    numbers: Numbers
    skipped: tuple[SkippedModel, ...]
    """Models of the route before this one."""


class PlanRefused(msgspec.Struct, frozen=True, rename="camel"):
    """Nothing fits."""

    reason: str
    """A sentence."""
    considered: tuple[SkippedModel, ...]
    numbers: Numbers | None
    """Numbers of the model with the most room and the least that must fit; None without a model."""
    would_fit: tuple[str, ...]
    """Changes that would help, any one of them."""
