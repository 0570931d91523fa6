"""Changes tools for clients as `spec.tools` describes: their name, annotations, arguments and results. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import jsonschema_rs
import msgspec
from msgspec import Raw

from fairlead_api.documents.catalog import ToolEntry, ToolShape, search_hash
from fairlead_api.v1alpha1.causes import Cause
from fairlead_api.v1alpha1.mcpserver import ToolOverride
from fairlead_api.v1alpha1.mcpserver.shape import ArgumentShape, ResultShape
from fairlead_mcp.parameters import InvalidAnnotation, parameters
from fairlead_operator.discovery.offerable import TOOL, Fault
from fairlead_operator.discovery.shaped_schema import ArgumentPlan, ShapedSchema, UnshapeableTool
from fairlead_tools.definitions.forms import ListedType, make_forms
from fairlead_tools.definitions.printable import fit
from fairlead_tools.selection import BadJmesPath, check_expression

REASON_LIMIT: Final = 300
"""Maximum characters of the reason why a tool is left out."""

_decode: Final = msgspec.json.Decoder().decode
_encode: Final = msgspec.json.Encoder().encode


def shape_tools(
    tools: Iterable[ToolEntry], overrides: dict[str, ToolOverride]
) -> tuple[list[ToolEntry], list[Fault], list[str]]:
    """Apply the shapes of tools. Returns the tools in their order, the faults of tools that are left out because of
    their shape, and notes.

    If several tools would have the same name for clients, the tool with this name at the server keeps it, or else the
    first tool by its name at the server; the others are left out.
    """
    shaped: list[ToolEntry] = []
    faults: list[Fault] = []
    notes: list[str] = []
    for tool in tools:
        override = overrides.get(tool.name)
        try:
            shape = None if override is None or not tool.enabled else tool_shape(bytes(tool.definition), override)
        except UnshapeableTool as error:
            faults.append(_fault(tool, str(error)))
            continue
        if override is not None and shape is not None:
            notes += _argument_notes(tool, shape, override)
        shaped.append(tool if shape is None else _apply_shape(tool, shape))
    owners: dict[str, ToolEntry] = {}
    for tool in sorted(shaped, key=lambda tool: (tool.shown_name != tool.name, tool.name)):
        if tool.enabled:
            owners.setdefault(tool.shown_name, tool)
    distinct: list[ToolEntry] = []
    for tool in shaped:
        owner = owners.get(tool.shown_name, tool)
        if not tool.enabled or owner is tool:
            distinct.append(tool)
        else:
            faults.append(_fault(tool, f"as: the tool '{owner.name}' is called '{tool.shown_name}' too"))
    return distinct, faults, notes


def tool_shape(definition: bytes, override: ToolOverride) -> ToolShape | None:
    """The shape of a tool with this definition; None if the override describes none. Raises UnshapeableTool."""
    result = override.result or ResultShape()
    shown_as = override.shown_as
    annotations = {} if override.annotations is None else _annotations(override)
    if not (shown_as or annotations or override.arguments or result.select or result.output_schema):
        return None
    shown_definition = _decode(definition)
    names: dict[str, str] = {}
    plan = _plan(override.arguments)
    if override.arguments:
        schema = ShapedSchema(shown_definition["inputSchema"], plan)
        missing_arguments = sorted(name for name in plan.hidden if name not in schema.arguments)
        if missing_arguments:
            raise UnshapeableTool(f"arguments: the tool has no argument '{missing_arguments[0]}'")
        shown_definition["inputSchema"] = schema.schema
        _keep_out_of_headers(definition, plan)
        names = {new: name for name, new in plan.client_names.items() if name in schema.arguments}
    if annotations:
        shown_definition["annotations"] = {**(shown_definition.get("annotations") or {}), **annotations}
        if "title" in annotations and "title" in shown_definition:
            shown_definition["title"] = annotations["title"]
    if result.select is not None:
        _check_expression(result.select)
        shown_definition.pop("outputSchema", None)
    if result.output_schema is not None:
        shown_definition["outputSchema"] = _check_output_schema(result.output_schema)
    if shown_as is not None:
        shown_definition["name"] = shown_as
    return ToolShape(
        definition=_check_definition(_encode(shown_definition)),
        name=shown_as,
        arguments=names,
        hidden=tuple(sorted(plan.hidden)),
        values=dict(plan.values),
        defaults=dict(plan.defaults),
        secrets=tuple(sorted(plan.secrets)),
        select=result.select,
    )


def _apply_shape(tool: ToolEntry, shape: ToolShape) -> ToolEntry:
    shaped_hash = search_hash(shape.name or tool.name, shape.definition, tags=tool.tags, categories=tool.categories)
    return msgspec.structs.replace(tool, shape=shape, search_hash=shaped_hash)


def _plan(arguments: dict[str, ArgumentShape]) -> ArgumentPlan:
    secrets = frozenset(name for name, shape in arguments.items() if shape.secret_ref is not None)
    hidden = {name for name, shape in arguments.items() if shape.hidden or shape.value is not None} | secrets
    optional = {name: shape.default if shape.value is None else shape.value for name, shape in arguments.items()}
    values = {name: value for name, value in optional.items() if value is not None}
    return ArgumentPlan(
        client_names={
            name: shape.shown_as
            for name, shape in arguments.items()
            if name not in hidden and shape.shown_as not in (None, name)
        },
        hidden=frozenset(hidden),
        values={name: value for name, value in values.items() if name in hidden and name not in secrets},
        secrets=secrets,
        defaults={name: value for name, value in values.items() if name not in hidden},
        descriptions={name: shape.description for name, shape in arguments.items() if shape.description is not None},
    )


def _annotations(override: ToolOverride) -> dict[str, Any]:
    assert override.annotations is not None
    return override.annotations.model_dump(by_alias=True, exclude_none=True)


def _check_output_schema(schema: dict[str, Any]) -> dict[str, Any]:
    try:
        jsonschema_rs.validator_for(schema, offline=True)
    except (jsonschema_rs.ValidationError, ValueError, RecursionError) as error:
        raise UnshapeableTool(f"result.schema: {error}") from error
    return schema


def _keep_out_of_headers(definition: bytes, plan: ArgumentPlan) -> None:
    """Refuse a secret for an argument that is also sent in a header (`x-mcp-header`), because proxies log headers."""
    in_headers = sorted({parameter.path[0] for parameter in parameters(definition)} & plan.secrets)
    if in_headers:
        raise UnshapeableTool(f"arguments: '{in_headers[0]}' is sent in a header too, so it cannot be a secret")


def _check_expression(expression: str) -> None:
    try:
        check_expression(expression)
    except BadJmesPath as error:
        raise UnshapeableTool(f"result.select: {error}") from error


def _check_definition(definition: bytes) -> Raw:
    """Check a shaped definition like those of servers, and return it. Raises UnshapeableTool."""
    refusal = make_forms(definition, ListedType.TOOL).modern.refusal
    if refusal:
        raise UnshapeableTool(refusal)
    try:
        parameters(definition)
    except InvalidAnnotation as error:
        raise UnshapeableTool(str(error)) from error
    return Raw(definition)


def _argument_notes(tool: ToolEntry, shape: ToolShape, override: ToolOverride) -> list[str]:
    """Notes about arguments in the override that the tool may lack. Such an argument is never hidden, so nothing is
    missing from calls; a hidden argument that the tool lacks raises UnshapeableTool instead.
    """
    shaped_arguments = {*shape.arguments.values(), *shape.hidden}
    properties = _decode(tool.definition).get("inputSchema", {}).get("properties") or {}
    missing_arguments = sorted(
        name for name in override.arguments if name not in shaped_arguments and name not in properties
    )
    if not missing_arguments:
        return []
    names = ", ".join(missing_arguments)
    return [f"tool '{tool.name}': spec.tools describes arguments that the tool seems to lack: {names}"]


def _fault(tool: ToolEntry, reason: str) -> Fault:
    return Fault(Cause.INVALID_SHAPES, TOOL.noun, fit(tool.name), fit(reason, REASON_LIMIT))
