"""Settings of the audit log."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from msgspec import Meta, field

from fairlead_api.environment import CommaSeparated, EnvironmentSettings, prefixed


class AuditSettings(EnvironmentSettings, frozen=True, kw_only=True, rename=prefixed("audit_")):
    """Audit log."""

    calls: Literal["off", "denials", "all"] = field(default="denials", name="audit")
    """Which calls get a line in the audit log: none, those that were denied or limited (crowds of them are summed up),
    or all."""
    file: Path | None = None
    """Where it is written; standard output without it. It may be moved away at any time."""
    file_bytes: Annotated[int, Meta(ge=0)] = 100_000_000
    """Size at which it is renamed to `….1`, in place of the one before; 0 never does, for files that something else
    rotates."""
    arguments: Literal["none", "hash", "redact", "full"] = "none"
    """Form of call arguments in the audit log: none, a keyed hash, all but `audit_redact`, or all."""
    redact: CommaSeparated = ()
    """Paths into arguments, such as `user.password`, `*.token` or `**.secret`."""
    otlp: bool = False
    """Whether its lines also go out by OTLP, where logs do (`OTEL_EXPORTER_OTLP_ENDPOINT`)."""
    key: str = ""
    """Secret key of the hashes. Without it every process takes one of its own, and only its own hashes compare."""
