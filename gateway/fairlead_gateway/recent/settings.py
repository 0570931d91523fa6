"""Settings of recent calls."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, field

from fairlead_api.environment import EnvironmentSettings, prefixed


class RecentCallSettings(EnvironmentSettings, frozen=True, kw_only=True, rename=prefixed("recent_calls_")):
    """Recent calls."""

    most: Annotated[int, Meta(ge=0, le=100_000)] = field(default=1000, name="recent_calls")
    """Calls that each replica keeps in memory for `/v1/calls` and the console, the last ones; 0 keeps none."""
    bytes: Annotated[int, Meta(ge=262_144, le=1_073_741_824)] = 4 << 20
    """Bytes of these, at most. A call takes up to 1.3 kB, of half of them; those with long names, and with arguments,
    where the audit log has them, take of the other half."""
