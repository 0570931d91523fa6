"""Status of an McpServer. Only the operator writes it.

This module has no I/O.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from fairlead_api.v1alpha1.common import Condition, Model, Time
from fairlead_api.v1alpha1.lists import Distinct

Transport = Literal["streamable-http", "sse", "stdio"]
UsedTransport = Literal["streamable-http", "sse", "stdio", "openapi"]
"""A transport of MCP, or `openapi` for an HTTP API without MCP."""


class ServerInfo(Model):
    """Identity that the server reports in MCP (`serverInfo`)."""

    name: str = Field(default="", max_length=1024)
    """Name for programs."""
    title: str | None = Field(default=None, max_length=1024)
    """Name for people, if there is one."""
    version: str = Field(default="", max_length=1024)
    """Version of the server."""


class CatalogReference(Model):
    """Reference to the published catalog."""

    name: str = Field(max_length=253)
    """Name of the ConfigMap in the release's namespace."""
    hash: str = Field(max_length=128)
    """Hash over the definitions; it only changes when they do."""
    updated_at: Time
    """Time of the last change."""


class LatencySummary(Model):
    """Measured durations of the slowest tool, in milliseconds."""

    slowest_tool: str = Field(default="", max_length=256)
    """Name of the tool with the highest p95."""
    p50_ms: int | None = Field(default=None, ge=0)
    """Median duration of its calls."""
    p95_ms: int | None = Field(default=None, ge=0)
    """95th percentile of the duration of its calls."""


class ApprovalRecord(Model):
    """One approval of held-back definitions."""

    hash: str = Field(max_length=128)
    """Hash of the approved definitions."""
    at: Time
    """Time from which they were served."""
    by: str = Field(default="", max_length=256)
    """User who approved, from `spec.approval`. Empty: unknown."""
    definitions: int = Field(ge=0)
    """Number of approved definitions."""


class OperationStatus(Model):
    """Reason why an operation did not become a tool, or lost a part."""

    operation: str = Field(max_length=1024)
    """Method and path."""
    tool: str | None = Field(default=None, max_length=256)
    """Name of the tool. Absent: the operation is left out."""
    why: str = Field(max_length=1024)
    """Reason, as a clause."""


class ApiStatus(Model):
    """Report on the operations of an OpenAPI document."""

    digest: str = Field(max_length=128)
    """SHA-256 of the document, hexadecimal."""
    operations: int = Field(ge=0)
    """Number of operations that `include` and `exclude` select."""
    with_loss: int = Field(default=0, ge=0)
    """Number of tools that lack something of their operation."""
    left_out: int = Field(default=0, ge=0)
    """Number of selected operations that did not become tools."""
    remarks: list[OperationStatus] = Field(default=[], max_length=20)
    """The first operations that are left out, then the first tools with loss; `fairlead openapi check` has all."""


class McpServerStatus(Model):
    """Observed state of an McpServer. There is no `phase`: the conditions have the details."""

    conditions: Annotated[list[Condition], Distinct(key="type")] = Field(default=[], max_length=16)
    """`Accepted`, `ResolvedRefs`, `Programmed`, `Verified`, `Authorized` with grants in `spec.auth`, and `Ready`, which
    summarizes them. Also `Calibrated` and `DefinitionsClean`; `Approved` if definitions are pinned;
    `NetworkPolicyEnforced` if the installation probes that; `PartiallyInvalid` and `Conflicted` where they apply."""
    observed_generation: int = 0
    """`metadata.generation` that this status describes."""
    replicas: int | None = Field(default=None, ge=0)
    """Number of existing pods, ready or not. Absent: the server has no pods."""
    selector: str | None = Field(default=None, max_length=512)
    """Labels of the pods, for an autoscaler. Absent: the server has no pods."""
    transport: UsedTransport | None = None
    """Transport in use, from the spec or its default; `openapi` for an HTTP API."""
    tools: int | None = Field(default=None, ge=0)
    """Number of offered tools. Absent: not determined yet."""
    tools_offline: int | None = Field(default=None, ge=0)
    """Number of discovered tools that cannot be called now."""
    tools_left_out: int | None = Field(default=None, ge=0)
    """Number of listed tools that cannot be offered; the message of `Verified` names them. Absent: none."""
    endpoint: str | None = Field(default=None, max_length=2048)
    """Endpoint of the server: a URL, or the command of a child process."""
    protocol_version: str | None = Field(default=None, max_length=64)
    """MCP revision in use, such as `2025-11-25`."""
    server_info: ServerInfo | None = None
    """Identity that the server reports in MCP."""
    extensions: list[Annotated[str, Field(max_length=128)]] | None = Field(default=None, max_length=32)
    """Extensions of MCP that the server declares, such as `io.modelcontextprotocol/tasks`; the first 32. Absent: none,
    or not determined yet."""
    openapi: ApiStatus | None = None
    """Report on the OpenAPI document. Absent: the server speaks MCP, or the document was not read yet."""
    catalog: CatalogReference | None = None
    """The published catalog. Absent: not published yet."""
    approvals: list[ApprovalRecord] | None = Field(default=None, max_length=10)
    """The last ten approvals of pinned definitions, newest first. Absent: none."""
    latency: LatencySummary | None = None
    """Measured durations of the slowest tool. Absent: not measured."""

    def condition(self, type_: str) -> Condition | None:
        """The condition of that type; None if it was not reported."""
        return next((condition for condition in self.conditions if condition.type == type_), None)
