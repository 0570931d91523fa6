"""Overrides for single tools of a server: visibility, description, latency, probe.

Pure.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from fairlead_api.v1alpha1.common import DURATION_PATTERN, Duration, Model, TierName, duration_rule
from fairlead_api.v1alpha1.lists import Distinct
from fairlead_api.v1alpha1.moved import MovedField
from fairlead_api.v1alpha1.rules import ValidationRule

Tag = Annotated[str, Field(min_length=1, max_length=63)]
SpokenResult = Literal["Wait", "WhenIdle", "Interrupt", "Silent"]
ToolName = Annotated[str, Field(min_length=1, max_length=256)]


class ToolLatency(Model):
    """Declared latency of a tool; measured figures replace it when there are enough."""

    estimated: Annotated[Duration, duration_rule("0ms", "300ms")] | None = None
    """Declared median. Absent: what the tool's own definition declares, if anything."""
    max: Annotated[Duration, duration_rule("1ms", "2s")] | None = None
    """Declared upper bound; a call is cut off here. Absent: what the definition declares, if anything."""
    idempotent: bool | None = None
    """Whether a call may be repeated without harm. Absent: what the server says, where its annotations are trusted."""
    cacheable: Annotated[Duration, duration_rule("0s", "1m", "720h")] | None = None
    """How long a result may be served again for the same arguments, in whole seconds; `0s`: never.
    Absent: what the definition declares, else never."""

    moved: ClassVar[tuple[MovedField, ...]] = (
        MovedField("estimatedDurationMs", "integer", "estimated, a duration: 300 is 300ms"),
        MovedField("maxDurationMs", "integer", "max, a duration: 2000 is 2s"),
        MovedField("cacheableSeconds", "integer", "cacheable, a duration: 60 is 1m"),
    )
    guards: ClassVar[tuple[ValidationRule, ...]] = (
        ValidationRule(
            cel="!has(self.estimated) || !has(self.max) || "
            f"!self.estimated.matches('{DURATION_PATTERN}') || !self.max.matches('{DURATION_PATTERN}') || "
            "duration(self.estimated) <= duration(self.max)",
            message="latency: estimated must not be above max",
            holds=lambda latency: (
                latency.estimated is None
                or latency.max is None
                or latency.estimated.milliseconds <= latency.max.milliseconds
            ),
        ),
    )


class Probe(Model):
    """How the tool is called to measure it."""

    arguments: dict[str, Any] | None = None
    """Arguments that are safe to call it with at any time; `{}` for none.
    Giving them has the tool probed, whether it is read-only or not."""


class ToolLimits(Model):
    """Bounds on the calls of one tool, all agents together, and on its results. Absent members bound nothing."""

    calls_per_minute: int | None = Field(default=None, ge=1, le=1000000)
    """Calls started per minute; those of a whole minute may come at once. Of all gateway replicas where they share
    limits, else of each.
    """
    concurrency: int | None = Field(default=None, ge=1, le=100000)
    """Calls in flight, per gateway replica. One beyond it is refused; it does not wait."""
    result_tokens: int | None = Field(default=None, ge=200, le=10000000)
    """Tokens of a result. A longer one is kept for its caller, who gets its beginning, end and shape, and the tool
    `read_result` to read on. Absent: what the definition says as `fairlead.dev/result_tokens`, else any number."""


class ToolOverride(Model):
    """Says something about one tool of the server, found by its name."""

    name: ToolName
    """The tool's name as the server lists it, without prefix."""
    enabled: bool = True
    """Whether it is offered at all."""
    description: str | None = Field(default=None, max_length=16384)
    """Shown to models instead of the server's own. Absent: the server's own."""
    tags: Annotated[list[Tag], Distinct()] = Field(default=[], max_length=32)
    """Free words for search, policies and filters."""
    categories: Annotated[list[Tag], Distinct()] = Field(default=[], max_length=16)
    """Kinds of tools that it belongs to, such as `web-search`."""
    latency: ToolLatency | None = None
    """Declared latency."""
    min_tier: TierName | None = None
    """The fastest latency tier that shows it, however fast it is; measured latency can move it to slower ones only.
    Absent: what its definition says as `fairlead.dev/min_tier`, if anything. The slower of both counts."""
    limits: ToolLimits | None = None
    """How often it may be called, by all agents together, and how long its results may be."""
    speech: SpokenResult | None = None
    """When a speech model that can go on during a call (Gemini Live) says its result. `Wait`: it is silent until then;
    `WhenIdle`: once it has finished; `Interrupt`: at once, in the middle of a sentence; `Silent`: it knows of it, and
    says nothing. Absent: `Wait` for calls that usually take up to a second, else `WhenIdle`."""
    probe: Probe | None = None
    """How Fairlead may call it by itself, in order to measure it.
    Absent: not at all, except with `calibration.probe: ReadOnly`."""
