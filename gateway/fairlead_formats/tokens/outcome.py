"""Results of planning: the tools that fit, with token numbers, or a refusal with changes that would help.

Pure declarations; the camel-case names are those of the REST API.
"""

from __future__ import annotations

from typing import Final

import msgspec

MAX_TOOLS: Final = "maxTools"
"""The number of tools exceeds what the route, the policy, the request or the provider allows."""
TOOL_TOKENS: Final = "toolTokens"
"""The token limit for tools is reached."""
CONTEXT_WINDOW: Final = "contextWindow"
"""The model's context window is full."""


class Cut(msgspec.Struct, frozen=True, gc=False):
    """A tool that is left out."""

    name: str
    tokens: int
    """Tokens of the definition as the counter counts them, without the model's factor."""
    reason: str
    """`maxTools`, `toolTokens` or `contextWindow`."""


class Numbers(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """Use of the context window, in the model's tokens. `available` is the rest."""

    context_window: int
    tool_tokens: int
    system_prompt_tokens: int
    message_tokens: int
    reserved_output_tokens: int
    available: int
    counter: str
    """`o200k_base`, or `bytes/4` for an estimate."""
    family: str
    text_factor: float
    tool_factor: float
    window_source: str = ""
    max_input: int | None = None


class SkippedModel(msgspec.Struct, frozen=True, rename="camel"):
    """A model that has no room for all tools."""

    model: str
    context_window: int
    lacking: int
    """Missing tokens; 0 if not the context window but a limit on tools prevents it."""
    without_tools: bool
    """Whether the conversation alone does not fit."""


class Plan(msgspec.Struct, frozen=True, rename="camel"):
    """The chosen model and its tools."""

    model: str
    format: str
    tools: tuple[str, ...]
    """Names of the chosen tools, in the order of the candidates."""
    shortened: tuple[str, ...]
    """Names of the chosen tools whose descriptions have to be shortened (`shorten.shorten`)."""
    cut: tuple[Cut, ...]
    numbers: Numbers
    skipped: tuple[SkippedModel, ...]
    """Models that precede the chosen model in the route."""


class PlanRefused(msgspec.Struct, frozen=True, rename="camel"):
    """No model of the route fits."""

    reason: str
    """The reason as a sentence."""
    considered: tuple[SkippedModel, ...]
    numbers: Numbers | None
    """Numbers of the model with the most room, for the tools that have to fit at least; None without a model."""
    would_fit: tuple[str, ...]
    """Changes, each of which alone makes a plan possible."""
