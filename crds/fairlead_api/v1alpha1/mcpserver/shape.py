"""The shape of a tool: the name, annotations, arguments and results that clients see instead of the server's.

This module has no I/O.
"""

from __future__ import annotations

from typing import Annotated, Any, Final

from pydantic import Field

from fairlead_api.v1alpha1.common import Model
from fairlead_api.v1alpha1.mcpserver.auth import CredentialSource

ShownName = Annotated[str, Field(min_length=1, max_length=128, pattern=r"^[A-Za-z0-9_.-]+$")]
"""Name of a tool by the rule of MCP 2026-07-28 (tools, names; SEP-986)."""
ArgumentName = Annotated[str, Field(min_length=1, max_length=64, pattern=r"^[A-Za-z_][A-Za-z0-9_.-]*$")]
"""Name of an argument that every model provider accepts. The shortest maximum is Anthropic's."""
_ANY_JSON: Final[dict[str, Any]] = {"x-kubernetes-preserve-unknown-fields": True}


class ShownAnnotations(Model):
    """Annotations of a tool (MCP 2026-07-28, ToolAnnotations)."""

    title: str | None = Field(default=None, min_length=1, max_length=256)
    """Title for people."""
    read_only_hint: bool | None = None
    """Whether the tool changes nothing."""
    destructive_hint: bool | None = None
    """Whether the tool may delete or overwrite something."""
    idempotent_hint: bool | None = None
    """Whether a repeated call has no further effect."""
    open_world_hint: bool | None = None
    """Whether the tool deals with the outside world, such as a web search."""


class ArgumentShape(Model):
    """How clients see one argument of a tool. If several members give a value, the first of `secretRef`, `value` and
    `default` is used.
    """

    shown_as: ArgumentName | None = Field(default=None, alias="as")
    """Name of the argument for clients. Absent: the server's."""
    description: str | None = Field(default=None, max_length=4096)
    """Description that models see instead of the server's. Absent: the server's."""
    default: Any = Field(default=None, json_schema_extra=_ANY_JSON)
    """Value, of any JSON type but null, for calls without the argument, which is then optional."""
    value: Any = Field(default=None, json_schema_extra=_ANY_JSON)
    """Value, of any JSON type but null, of every call. The argument is hidden, and what clients send is ignored."""
    secret_ref: CredentialSource | None = None
    """Secret with the value, a text, of every call. The argument is hidden, and what clients send is ignored. The value
    is only in the request to the server: policies, results in caches and the audit log do not have it."""
    hidden: bool = False
    """Whether the argument is hidden: models do not see it, and what clients send is ignored. The server gets
    `default`, or nothing."""


class ResultShape(Model):
    """Which part of a tool's results clients get, and its schema."""

    select: str | None = Field(default=None, min_length=1, max_length=1024)
    """JMESPath expression over the structured content of a result, or over its only text if that is JSON. Clients get
    its value instead. Errors stay as they are; where the expression fails, clients get the whole result and a mark in
    `_meta`."""
    output_schema: dict[str, Any] | None = Field(default=None, alias="schema")
    """JSON Schema that replaces the tool's `outputSchema`; results are validated against it. Absent: with `select` the
    tool has no `outputSchema`, else the server's."""
