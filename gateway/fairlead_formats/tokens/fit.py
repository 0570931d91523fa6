"""Choice of the tools that fit the context window of one model, and the limits. Pure module."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

from fairlead_formats.registry import PROVIDER_FORMATS
from fairlead_formats.tokens.conversation import ConversationTokens
from fairlead_formats.tokens.models import family_of
from fairlead_formats.tokens.outcome import CONTEXT_WINDOW, MAX_TOOLS, TOOL_TOKENS, Cut, Numbers, Plan, SkippedModel
from fairlead_formats.tokens.routes import PlanLimits, RouteModel, smaller_limit

SCALE: Final = 1_000_000
"""Divisor for the product of a family's and a format's token factor, because both are in thousandths."""


class Candidate(msgspec.Struct, frozen=True, gc=False):
    """A tool that may be in the request. Candidates are ordered by preference: rank in a search, or name."""

    name: str
    tokens: int
    """Tokens of the definition, as o200k counts them (`sizes.Size`)."""
    short: int | None = None
    """Tokens with shortened descriptions; None if these are not known."""
    pinned: bool = False
    """Whether the tool must not be left out."""


class CandidateSet:
    """All candidates, and sums of their tokens as o200k counts them. `short`: whether descriptions are shortened."""

    def __init__(self, tools: list[Candidate], *, short: bool) -> None:
        self.tools = tools
        self.short = short
        self.unpinned_tokens = [cost(tool, short) for tool in tools if not tool.pinned]
        """Tokens of each tool that may be left out."""
        self.pinned = [tool for tool in tools if tool.pinned]
        self.pinned_tokens = self.tokens(self.pinned)
        self.all_tokens = self.pinned_tokens + sum(self.unpinned_tokens)

    def tokens(self, tools: Iterable[Candidate]) -> int:
        return sum(cost(tool, self.short) for tool in tools)


def cost(tool: Candidate, short: bool) -> int:
    """Tokens of a candidate, as o200k counts them. `short`: with shortened descriptions, if these tokens are known."""
    return tool.tokens if not short or tool.short is None else tool.short


class Fit:
    """Room for tools in the context window of one model, for one conversation. Plans which tools to send."""

    def __init__(self, model: RouteModel, conversation: ConversationTokens, limits: PlanLimits) -> None:
        self.model = model
        family = model.family or family_of(model.name)
        self.family = family
        self.system = self.text(conversation.system)
        """Tokens of the system prompt."""
        self.messages = self.text(conversation.messages - conversation.media) + conversation.media
        self.factor = family.tools * PROVIDER_FORMATS[model.format].token_growth
        """The model's tokens of definitions per `SCALE` tokens that o200k counts."""
        window = model.window
        self.reserved = limits.reserved_output
        """Tokens reserved for the answer."""
        self.reserved_floor = limits.reserved_floor
        room = window.context - self.reserved
        self.input = room if window.max_input is None else min(room, window.max_input)
        """Maximum number of tokens of the whole prompt."""
        self.room = self.input - self.system - self.messages
        """Tokens left for tools and the preamble of tools; negative if the conversation alone does not fit."""
        self.max_tools_by_limits = limits.max_tools
        """Maximum number of tools by the limits alone; None: unlimited."""
        self.max_tools = smaller_limit(limits.max_tools, model.max_tools)
        """Maximum number of tools by the limits and the provider; None: unlimited."""
        self.tool_tokens = limits.tool_tokens
        """Maximum number of tokens of all tools by the limits; None: unlimited."""

    def text(self, tokens: int) -> int:
        """Convert o200k's count of a text to the model's own tokens."""
        return -(-tokens * self.family.text // 1000)

    def tokens(self, total: int) -> int:
        """Convert o200k's count of all tools together to the model's own tokens, the preamble of tools included."""
        return -(-total * self.factor // SCALE) + self.family.preamble if total else 0

    def fits_all(self, pool: CandidateSet) -> bool:
        """Whether every tool fits the context window and the limits."""
        tokens = self.tokens(pool.all_tokens)
        return tokens <= self.room and self.allows(len(pool.tools), tokens)

    def allows(self, tools: int, tokens: int) -> bool:
        """Whether the limits and the provider allow this number of tools with this many of the model's tokens."""
        return (self.max_tools is None or tools <= self.max_tools) and (
            self.tool_tokens is None or tokens <= self.tool_tokens
        )

    def count_fitting(self, pool: CandidateSet) -> int:
        """Number of tools that fit; -1 if the conversation or the pinned tools do not fit."""
        provider_limit = self.model.max_tools
        if self.tokens(pool.pinned_tokens) > self.room or (
            provider_limit is not None and len(pool.pinned) > provider_limit
        ):
            return -1
        max_unpinned, window_tokens, limit_tokens = self._bounds(pool)
        max_tokens, used_tokens, fitting_count = min(window_tokens, limit_tokens), pool.pinned_tokens, 0
        for size in pool.unpinned_tokens if max_unpinned > 0 else ():
            if used_tokens + size <= max_tokens:
                used_tokens += size
                fitting_count += 1
                if fitting_count == max_unpinned:
                    break
        return len(pool.pinned) + fitting_count

    def cut_tools(self, pool: CandidateSet) -> list[Cut]:
        """Tools that have to be left out, in the order of the candidates, each with its reason."""
        max_unpinned, window_tokens, limit_tokens = self._bounds(pool)
        used_tokens, cuts = pool.pinned_tokens, []
        for tool in pool.tools:
            if tool.pinned:
                continue
            size = cost(tool, pool.short)
            if max_unpinned <= 0:
                cuts.append(Cut(tool.name, size, MAX_TOOLS))
            elif used_tokens + size > window_tokens:
                cuts.append(Cut(tool.name, size, CONTEXT_WINDOW))
            elif used_tokens + size > limit_tokens:
                cuts.append(Cut(tool.name, size, TOOL_TOKENS))
            else:
                used_tokens += size
                max_unpinned -= 1
        return cuts

    def _bounds(self, pool: CandidateSet) -> tuple[int, int, int]:
        """Three maxima: the number of tools that are not pinned, and the tokens of all tools, as o200k counts them,
        that fit the context window and that the token limit allows.
        """
        preamble = self.family.preamble
        window_tokens = (self.room - preamble) * SCALE // self.factor
        limit_tokens = (
            window_tokens if self.tool_tokens is None else (self.tool_tokens - preamble) * SCALE // self.factor
        )
        max_unpinned = self.max_tools if self.max_tools is not None else len(pool.tools)
        return max_unpinned - len(pool.pinned), window_tokens, limit_tokens

    def plan(self, pool: CandidateSet, cuts: list[Cut], fits: list[Fit], counter: str) -> Plan:
        cut_names = {cut.name for cut in cuts}
        tools = [tool for tool in pool.tools if tool.name not in cut_names]
        shortened_names = (
            tuple(t.name for t in tools if t.short is not None and t.short < t.tokens) if pool.short else ()
        )
        return Plan(
            model=self.model.name,
            format=self.model.format,
            tools=tuple(tool.name for tool in tools),
            shortened=shortened_names,
            cut=tuple(cuts),
            numbers=self.numbers(pool.tokens(tools), counter),
            skipped=tuple(fit.skipped_model(pool) for fit in fits[: fits.index(self)]),
        )

    def numbers(self, total: int, counter: str) -> Numbers:
        """The numbers of a plan. `total`: tokens of its tools, as o200k counts them."""
        tokens = self.tokens(total)
        return Numbers(
            context_window=self.model.window.context,
            max_input=self.model.window.max_input,
            window_source=self.model.window.source,
            tool_tokens=tokens,
            system_prompt_tokens=self.system,
            message_tokens=self.messages,
            reserved_output_tokens=self.reserved,
            available=self.room - tokens,
            counter=counter,
            family=self.family.name,
            text_factor=self.family.text / 1000,
            tool_factor=self.factor / SCALE,
        )

    def skipped_model(self, pool: CandidateSet) -> SkippedModel:
        """The report that this model has no room for all tools."""
        missing_tokens = self.tokens(pool.all_tokens) - self.room
        return SkippedModel(self.model.name, self.model.window.context, max(0, missing_tokens), self.room < 0)
