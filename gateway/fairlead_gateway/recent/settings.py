"""Settings of recent calls."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, field

from fairlead_api.environment import EnvironmentSettings, prefixed


class RecentCallSettings(EnvironmentSettings, frozen=True, kw_only=True, rename=prefixed("recent_calls_")):
    """Recent calls."""

    max_calls: Annotated[int, Meta(ge=0, le=100_000)] = field(default=1000, name="recent_calls")
    """Number of last calls that each replica stores in memory for `/v1/calls` and the console; 0 stores none."""
    bytes: Annotated[int, Meta(ge=262_144, le=1_073_741_824)] = 4 << 20
    """Maximum number of bytes of stored calls. One half is for plain calls, which take up to 1.3 kB each. The other
    half is for long names and, if the audit log records them, for arguments."""
