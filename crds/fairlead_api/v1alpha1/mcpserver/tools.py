"""Overrides for single tools of a server: visibility, shape, latency, probe. `shape` has the models of the shape.

This module has no I/O.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Final, Literal

from pydantic import Field

from fairlead_api.v1alpha1.common import DURATION_PATTERN, Duration, Model, TierName, duration_rule
from fairlead_api.v1alpha1.lists import Distinct
from fairlead_api.v1alpha1.mcpserver.shape import ArgumentShape, ResultShape, ShownAnnotations, ShownName
from fairlead_api.v1alpha1.moved import MovedField
from fairlead_api.v1alpha1.rules import ValidationRule

Tag = Annotated[str, Field(min_length=1, max_length=63)]
SpokenResult = Literal["Wait", "WhenIdle", "Interrupt", "Silent"]
ToolName = Annotated[str, Field(min_length=1, max_length=256)]

WHOLE_SECONDS: Final = ValidationRule(
    cel="!self.endsWith('ms') || self.endsWith('000ms') || self == '0ms'",
    message="must be in whole seconds, such as 1m",
    holds=lambda text: not text.endswith("ms") or text.endswith("000ms") or text == "0ms",
)


class ToolLatency(Model):
    """Declared latency of a tool; measurements replace it once there are enough."""

    estimated: Annotated[Duration, duration_rule("0ms", "300ms")] | None = None
    """Declared median. Absent: that of the tool's definition, if any."""
    max: Annotated[Duration, duration_rule("1ms", "2s")] | None = None
    """Declared upper bound, which is the timeout of a call; it begins after the start of a process for the call.
    Absent: that of the tool's definition, if any."""
    idempotent: bool | None = None
    """Whether a call may be repeated without harm. Absent: the server's annotation, if its annotations are trusted."""
    cacheable: Annotated[Duration, duration_rule("0s", "1m", "720h"), WHOLE_SECONDS] | None = None
    """How long a result may be reused for the same arguments, in whole seconds; `0s`: never.
    Absent: as the tool's definition declares, else never."""

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
            message="latency: estimated must not be longer than max",
            holds=lambda latency: (
                latency.estimated is None
                or latency.max is None
                or latency.estimated.milliseconds <= latency.max.milliseconds
            ),
        ),
    )


class Probe(Model):
    """How the tool is probed to measure its latency."""

    arguments: dict[str, Any] | None = None
    """Arguments with which the tool may safely be called at any time; `{}` for none.
    With arguments, the tool is probed even if it is not read-only."""


class ToolLimits(Model):
    """Limits on calls of one tool over all agents, and on its results. Absent members do not limit anything."""

    calls_per_minute: int | None = Field(default=None, ge=1, le=1000000)
    """Limit on calls started per minute; a whole minute's calls may start at once. It applies to all gateway replicas
    together if they share limits, else to each.
    """
    concurrency: int | None = Field(default=None, ge=1, le=100000)
    """Limit on concurrent calls, per gateway replica. A call beyond it is refused instead of queued."""
    result_tokens: int | None = Field(default=None, ge=200, le=10000000)
    """Limit on the tokens of a result. The gateway stores a longer result for the caller and returns its beginning, end
    and shape; the tool `read_result` reads the rest. Absent: `fairlead.dev/result_tokens` of the definition, else no
    limit."""


class ToolOverride(Model):
    """Settings of one tool of the server, identified by its name."""

    name: ToolName
    """The tool's name as the server lists it, without prefix."""
    enabled: bool = True
    """Whether the tool is offered."""
    shown_as: ShownName | None = Field(default=None, alias="as")
    """Name, without prefix, under which clients see and call the tool. Policies, pins, metrics and the audit log keep
    the server's name. Absent: the server's name."""
    description: str | None = Field(default=None, max_length=16384)
    """Description that models see instead of the server's. Absent: the server's."""
    annotations: ShownAnnotations | None = None
    """Annotations that clients see instead of the server's of the same names. Policies and retries believe them only
    if `trustAnnotations` applies."""
    arguments: dict[str, ArgumentShape] = Field(default={}, max_length=64)
    """How clients see arguments of the tool, by the server's names of the arguments. An argument of `inputSchema`
    without an entry stays as it is. A tool that lacks a hidden argument or one with a value is left out."""
    result: ResultShape | None = None
    """Which part of the tool's results clients get. Absent: all of it."""
    tags: Annotated[list[Tag], Distinct()] = Field(default=[], max_length=32)
    """Free words for search, policies and filters."""
    categories: Annotated[list[Tag], Distinct()] = Field(default=[], max_length=16)
    """Categories of the tool, such as `web-search`."""
    latency: ToolLatency | None = None
    """Declared latency."""
    min_tier: TierName | None = None
    """The fastest latency tier that shows the tool, whatever its measured latency; a high latency can still move it to
    slower tiers. Absent: `fairlead.dev/min_tier` of the definition, if any. The slower of both counts."""
    limits: ToolLimits | None = None
    """Limits on calls of the tool, over all agents, and on the length of its results."""
    speech: SpokenResult | None = None
    """When a speech model that can continue during a call (Gemini Live) speaks the result. `Wait`: the model is silent
    until the result; `WhenIdle`: when the model has finished speaking; `Interrupt`: at once, in the middle of a
    sentence; `Silent`: never, although the model receives it. Absent: `Wait` for calls that usually take up to a
    second, else `WhenIdle`."""
    probe: Probe | None = None
    """How Fairlead may probe the tool to measure its latency.
    Absent: not at all, except with `calibration.probe: ReadOnly`."""
