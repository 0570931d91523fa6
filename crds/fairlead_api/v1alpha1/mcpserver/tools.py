"""Overrides for single tools of a server: visibility, description, latency, probe.

Pure.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

from pydantic import Field

from fairlead_api.v1alpha1.common import Model
from fairlead_api.v1alpha1.lists import Distinct
from fairlead_api.v1alpha1.rules import ValidationRule

Tag = Annotated[str, Field(min_length=1, max_length=63)]
ToolName = Annotated[str, Field(min_length=1, max_length=256)]


class ToolLatency(Model):
    """Declared latency of a tool; measured figures replace it when there are enough."""

    estimated_duration_ms: int | None = Field(default=None, ge=0, le=3600000)
    """Declared median, in milliseconds. Absent: what the tool's own definition declares, if anything."""
    max_duration_ms: int | None = Field(default=None, ge=1, le=3600000)
    """Declared upper bound, in milliseconds; a call is cut off here.
    Absent: what the definition declares, if anything."""
    idempotent: bool | None = None
    """Whether a call may be repeated without harm. Absent: what the server says, where its annotations are trusted."""
    cacheable_seconds: int | None = Field(default=None, ge=0, le=31536000)
    """How long a result may be served again for the same arguments; 0: never.
    Absent: what the definition declares, else never."""

    guards: ClassVar[tuple[ValidationRule, ...]] = (
        ValidationRule(
            cel="!has(self.estimatedDurationMs) || !has(self.maxDurationMs) || "
            "self.estimatedDurationMs <= self.maxDurationMs",
            message="latency: estimatedDurationMs must not be above maxDurationMs",
            holds=lambda latency: (
                latency.estimated_duration_ms is None
                or latency.max_duration_ms is None
                or latency.estimated_duration_ms <= latency.max_duration_ms
            ),
        ),
    )


class Probe(Model):
    """How the tool is called to measure it."""

    arguments: dict[str, Any] | None = None
    """Arguments that are safe to call it with at any time; `{}` for none.
    Giving them has the tool probed, whether it is read-only or not."""


class ToolLimits(Model):
    """Bounds on the calls of one tool, all agents together. Absent members bound nothing."""

    calls_per_minute: int | None = Field(default=None, ge=1, le=1000000)
    """Calls started per minute; those of a whole minute may come at once. Of all gateway replicas where they share
    limits, else of each.
    """
    concurrency: int | None = Field(default=None, ge=1, le=100000)
    """Calls in flight, per gateway replica. One beyond it is refused; it does not wait."""


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
    limits: ToolLimits | None = None
    """How often it may be called, by all agents together."""
    probe: Probe | None = None
    """How Fairlead may call it by itself, in order to measure it.
    Absent: not at all, except with `calibration.probe: ReadOnly`."""
