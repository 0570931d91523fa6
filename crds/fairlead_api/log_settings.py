"""Settings of log lines, common to gateway and operator."""

from __future__ import annotations

from typing import Literal

from fairlead_api.environment import EnvironmentSettings, prefixed
from fairlead_api.setting_types import LogLevel


class LogSettings(EnvironmentSettings, frozen=True, kw_only=True, rename=prefixed("log_")):
    """Log lines on standard error."""

    level: LogLevel = "INFO"
    """Minimum severity of the lines that are logged."""
    format: Literal["text", "json"] = "text"
    """`text` for people, `json` for collectors: one object per line."""
