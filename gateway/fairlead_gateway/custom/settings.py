"""Settings of custom tools."""

from __future__ import annotations

from msgspec import field

from fairlead_api.environment import CommaSeparated, EnvironmentSettings
from fairlead_api.setting_types import Count


class CustomToolSettings(EnvironmentSettings, frozen=True, kw_only=True):
    """Custom tools, the tools of the server `local`."""

    modules: CommaSeparated = field(default=(), name="tools")
    """Modules of custom tools, as `package.module`, `package.module:member` or the path of a file."""
    threads: Count = field(default=16, name="tool_threads")
    """Maximum number of calls of blocking custom tools that run at once; further calls wait."""
