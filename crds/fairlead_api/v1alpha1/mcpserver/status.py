"""Status of an McpServer, as the operator reports it.

Written by the operator only; read by people, `kubectl` columns and tests. Pure.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from fairlead_api.v1alpha1.common import Condition, Model, Time
from fairlead_api.v1alpha1.lists import Distinct

Transport = Literal["streamable-http", "sse", "stdio"]


class ServerInfo(Model):
    """How the server introduces itself."""

    name: str = Field(default="", max_length=1024)
    """Its name for programs."""
    title: str | None = Field(default=None, max_length=1024)
    """Its name for people, where it gives one."""
    version: str = Field(default="", max_length=1024)
    """Its version."""


class CatalogReference(Model):
    """The published catalog."""

    name: str = Field(max_length=253)
    """Name of the ConfigMap in the release's namespace."""
    hash: str = Field(max_length=128)
    """Hash over the definitions; the same as long as the server lists the same."""
    updated_at: Time
    """When it last changed."""


class LatencySummary(Model):
    """Measured durations, in milliseconds."""

    slowest_tool: str = Field(default="", max_length=256)
    """The tool with the highest p95."""
    p50_ms: int | None = Field(default=None, ge=0)
    """Median of its calls."""
    p95_ms: int | None = Field(default=None, ge=0)
    """95 of 100 of its calls are at most this long."""


class ApprovalRecord(Model):
    """One approval that put held-back definitions in force."""

    hash: str = Field(max_length=128)
    """Hash of the definitions that it let through."""
    at: Time
    """When they came in force."""
    by: str = Field(default="", max_length=256)
    """User who gave it, as `spec.approval` says. Empty: nobody said."""
    definitions: int = Field(ge=0)
    """Number of definitions that it let through."""


class McpServerStatus(Model):
    """Observations. No `phase`: the conditions say what is and is not."""

    conditions: Annotated[list[Condition], Distinct(key="type")] = Field(default=[], max_length=16)
    """`Accepted`, `ResolvedRefs`, `Programmed`, `Verified`, and `Ready`, which follows from them. Beside them
    `Calibrated`, `DefinitionsClean`, `Approved` where definitions are
    pinned, and `NetworkPolicyEnforced` where the installation probes that."""
    observed_generation: int = 0
    """`metadata.generation` that this status describes."""
    replicas: int | None = Field(default=None, ge=0)
    """Pods that there are, ready or not. Absent: none are run here."""
    selector: str | None = Field(default=None, max_length=512)
    """Labels of the pods, for an autoscaler. Absent: none are run here."""
    transport: Transport | None = None
    """How the server is spoken to, also where the spec leaves it to its default."""
    tools: int | None = Field(default=None, ge=0)
    """Tools in the catalog that are offered. Absent: not known yet."""
    tools_offline: int | None = Field(default=None, ge=0)
    """Discovered tools that cannot be called now."""
    tools_left_out: int | None = Field(default=None, ge=0)
    """Tools that the server lists and that cannot be offered; the message of `Verified` names them. Absent: none."""
    endpoint: str | None = Field(default=None, max_length=2048)
    """Where the server is reached; a URL, or the command of a child process."""
    protocol_version: str | None = Field(default=None, max_length=64)
    """MCP revision in use, such as `2025-11-25`."""
    server_info: ServerInfo | None = None
    """How the server introduces itself."""
    extensions: list[Annotated[str, Field(max_length=128)]] | None = Field(default=None, max_length=32)
    """Extensions of MCP that the server declares, such as `io.modelcontextprotocol/tasks`; the first 32. Absent: none,
    or not known yet."""
    catalog: CatalogReference | None = None
    """The published catalog. Absent: none yet."""
    approvals: list[ApprovalRecord] | None = Field(default=None, max_length=10)
    """The last approvals of pinned definitions, newest first; ten at most. Absent: none was needed."""
    latency: LatencySummary | None = None
    """Measured durations of the slowest tool. Absent: not measured."""

    def condition(self, type_: str) -> Condition | None:
        """The condition of that type; None where it was not reported."""
        return next((condition for condition in self.conditions if condition.type == type_), None)
