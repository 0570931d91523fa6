"""Settings of the audit log."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from msgspec import Meta, field

from fairlead_api.environment import CommaSeparated, EnvironmentSettings, prefixed


class AuditSettings(EnvironmentSettings, frozen=True, kw_only=True, rename=prefixed("audit_")):
    """Audit log."""

    calls: Literal["off", "denials", "all"] = field(default="denials", name="audit")
    """Calls that are recorded in the audit log: none, only denied and limited calls, or all calls. Repeated denials are
    summed up."""
    file: Path | None = None
    """File of the audit log; standard output if unset. The file may be moved away at any time."""
    file_bytes: Annotated[int, Meta(ge=0)] = 100_000_000
    """Size in bytes at which the audit log's file is renamed to `….1`, replacing the previous file of that name; 0
    leaves rotation to another program.
    """
    arguments: Literal["none", "hash", "redact", "full"] = "none"
    """Form of call arguments in the audit log: no arguments, a keyed hash, all arguments except those of
    `audit_redact`, or all arguments."""
    redact: CommaSeparated = ()
    """Paths to the arguments that are redacted in the audit log, such as `user.password`, `*.token` or `**.secret`."""
    otlp: bool = False
    """Whether lines of the audit log are also exported over OTLP, to the endpoint for logs
    (`OTEL_EXPORTER_OTLP_ENDPOINT`).
    """
    key: str = ""
    """Secret key of the hashes of arguments in the audit log. If unset, each process uses a random key, and
    hashes of different processes cannot be compared.
    """
