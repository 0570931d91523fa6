"""Validates the declaration of a custom tool, and makes the tool's MCP definition."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from fairlead_mcp import jsonrpc
from fairlead_tools.handlers import derive
from fairlead_tools.handlers.prepared import Prepared
from fairlead_tools.handlers.problems import BadTool
from fairlead_tools.handlers.tool import CustomTool

_NAME: Final = re.compile(r"[A-Za-z0-9_./-]{1,128}")
"""Matches valid names (MCP 2025-11-25, "Tool Names")."""


def prepare(name: str, tool: CustomTool) -> Prepared:
    """Make the registry entry of a tool with this name. Raises BadTool."""
    if not callable(tool.handler):
        raise BadTool(f"its handler has the type {type(tool.handler).__name__}, which cannot be called")
    if inspect.isasyncgenfunction(tool.handler) or inspect.isgeneratorfunction(tool.handler):
        raise BadTool("its handler is a generator, but a tool has to return one result")
    if not _NAME.fullmatch(name):
        raise BadTool("its name must have 1 to 128 of the characters A-Z a-z 0-9 _ . / -")
    docstring = derive.documentation(tool.handler)
    bind = None
    if tool.input_schema is None:
        schema, bind = derive.signature(tool.handler, docstring.parameters)
    else:
        schema = _schema_copy(tool.input_schema)
    definition = {
        "name": name,
        "title": tool.title,
        "description": tool.description or docstring.description or None,
        "inputSchema": schema,
        "outputSchema": tool.output_schema or derive.output_schema(tool.handler),
        "annotations": tool.annotations,
        "_meta": tool.meta,
    }
    return Prepared(
        name,
        tool,
        _encode({member: value for member, value in definition.items() if value is not None}),
        bind,
        derive.context_parameter(tool.handler),
        _is_async(tool.handler),
    )


def _schema_copy(schema: Mapping[str, Any]) -> dict[str, Any]:
    copy = dict(schema)
    if copy.setdefault("type", "object") != "object":
        raise BadTool('its input_schema must have "type": "object"')
    return copy


def _encode(definition: dict[str, Any]) -> bytes:
    try:
        return jsonrpc.encode(definition)
    except (TypeError, ValueError, RecursionError) as error:
        raise BadTool(f"its definition cannot be encoded as JSON: {error}") from error


def _is_async(handler: Callable[..., Any]) -> bool:
    call_method = getattr(handler, "__call__", None)  # noqa: B004 - the method is inspected
    return inspect.iscoroutinefunction(handler) or inspect.iscoroutinefunction(call_method)
