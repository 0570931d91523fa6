"""Parameters of an operation as arguments of its tool. No I/O."""

from __future__ import annotations

import re
from typing import Any, Final, Literal, get_args

import msgspec

from fairlead_api.documents.operations import OperationParameter, Style
from fairlead_mcp.schemas import Schema
from fairlead_openapi.compiling.keywords import MAX_EXAMPLE_BYTES
from fairlead_openapi.compiling.naming import ArgumentNames
from fairlead_openapi.compiling.references import DocumentReferences
from fairlead_openapi.compiling.report import OperationLoss, SecurityScheme
from fairlead_openapi.compiling.schemas import PortableSchema, SchemaConverter
from fairlead_openapi.compiling.security import is_credential
from fairlead_openapi.compiling.shapes import UnusablePart, mapping, sequence, text

Location = Literal["path", "query", "header", "cookie"]
LOCATIONS: Final[tuple[Location, ...]] = get_args(Location)
_STYLES: Final[dict[Location, tuple[Style, ...]]] = {
    "path": ("simple", "matrix", "label"),
    "query": ("form", "spaceDelimited", "pipeDelimited", "deepObject"),
    "header": ("simple",),
    "cookie": ("form",),
}
"""Styles by location, the default first (OpenAPI 3.1, section 4.8.12.3)."""
_IGNORED_HEADERS: Final = frozenset({"accept", "content-type", "authorization"})
"""Header parameters that "SHALL be ignored" (OpenAPI 3.1, section 4.8.12.2)."""
_TOKEN: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
"""Names of headers and cookies (RFC 9110, section 5.6.2; RFC 6265, section 4.1.1)."""
_TEMPLATE_NAME: Final = re.compile(r"\{([^{}]*)\}")


class Argument(msgspec.Struct, frozen=True):
    """An argument of a tool."""

    name: str
    schema: Schema | bool
    required: bool


class ParameterSet(msgspec.Struct, frozen=True):
    """The parameters of one operation."""

    parameters: tuple[OperationParameter, ...]
    arguments: tuple[Argument, ...]
    definitions: frozenset[str]
    """Definitions that the schemas refer to."""
    losses: tuple[OperationLoss, ...]
    notes: tuple[str, ...]


def merge_parameters(path_item: dict[str, Any], operation: dict[str, Any], references: DocumentReferences) -> list[Any]:
    """Parameters of a path, and those of its operation, which win by name and location (OpenAPI 3.1, section 4.8.10.1).
    Raises UnusablePart.
    """
    parameters_by_key: dict[tuple[str, str], Any] = {}
    for parent in (path_item, operation):
        for value in sequence(parent.get("parameters"), "`parameters`"):
            parameter = mapping(references.resolve(value), "a parameter")
            parameters_by_key[text(parameter.get("in")), text(parameter.get("name"))] = parameter
    return list(parameters_by_key.values())


class ParameterReader:
    """Reader of one operation's parameters."""

    def __init__(
        self,
        path: str,
        schemas: SchemaConverter,
        schemes: dict[str, SecurityScheme],
        names: ArgumentNames,
    ) -> None:
        self._path_names = list(dict.fromkeys(_TEMPLATE_NAME.findall(path)))
        self._schemas = schemas
        self._schemes = schemes
        self._names = names
        self._parameters: list[OperationParameter] = []
        self._arguments: list[Argument] = []
        self._definitions: set[str] = set()
        self._losses: list[OperationLoss] = []
        self._notes: list[str] = []

    def read(self, parameters: list[Any]) -> ParameterSet:
        """Read merged parameters. Raises UnusablePart if a parameter that requests need cannot be read."""
        if "" in self._path_names:
            raise UnusablePart("the path has a parameter without a name")
        sorted_parameters = sorted(parameters, key=lambda parameter: _order(text(parameter.get("in"))))
        for parameter in sorted_parameters:
            self._read(parameter)
        declared_names = {parameter.name for parameter in self._parameters if parameter.location == "path"}
        for name in self._path_names:
            if name not in declared_names:
                self._notes.append(f"path parameter {name!r} is not declared, so it is read as a string")
                self._add(
                    {"name": name, "required": True}, name, "path", PortableSchema({"type": "string"}, frozenset())
                )
        return ParameterSet(
            tuple(self._parameters),
            tuple(self._arguments),
            frozenset(self._definitions),
            tuple(self._losses),
            tuple(self._notes),
        )

    def _read(self, parameter: dict[str, Any]) -> None:
        name, location = text(parameter.get("name")), text(parameter.get("in"))
        required = parameter.get("required") is True
        if location not in LOCATIONS or not name or not _is_sendable(name, location):
            problem = f"parameter {name!r} in {location!r} is not one of OpenAPI 3"
            if required:
                raise UnusablePart(problem)
            self._losses.append(OperationLoss("parameter", name, problem))
            return
        if location == "header" and name.lower() in _IGNORED_HEADERS:
            return
        if location == "path" and name not in self._path_names:
            self._notes.append(f"path parameter {name!r} is not in the path, so it is ignored")
            return
        if is_credential(location, name, self._schemes):
            return
        self._add(parameter, name, location, self._schema(parameter, name))

    def _schema(self, parameter: dict[str, Any], name: str) -> PortableSchema:
        if "schema" in parameter:
            return self._schemas.convert(parameter["schema"])
        content = parameter.get("content")
        if isinstance(content, dict) and content:
            media = next(iter(content.values()))
            return self._schemas.convert(media.get("schema", True) if isinstance(media, dict) else True)
        self._notes.append(f"parameter {name!r} has no schema, so it is read as a string")
        return PortableSchema({"type": "string"}, frozenset())

    def _add(self, parameter: dict[str, Any], name: str, location: Location, converted: PortableSchema) -> None:
        argument = self._names.allot(name, location)
        style, explode = self._style(parameter, name, location)
        content = parameter.get("content")
        self._parameters.append(
            OperationParameter(
                argument=argument,
                name=name,
                location=location,
                style=style,
                explode=explode,
                allow_reserved=location == "query" and parameter.get("allowReserved") is True,
                media_type=next(iter(content), "") if isinstance(content, dict) and "schema" not in parameter else "",
            )
        )
        required = location == "path" or parameter.get("required") is True
        self._arguments.append(Argument(argument, with_description(converted.schema, parameter), required))
        self._definitions |= converted.names
        self._losses += [OperationLoss(loss.kind, argument, loss.message) for loss in converted.losses]

    def _style(self, parameter: dict[str, Any], name: str, location: Location) -> tuple[Style, bool]:
        styles = _STYLES[location]
        style = parameter.get("style", styles[0])
        if style not in styles:
            self._notes.append(
                f"style {str(style)[:40]!r} of parameter {name!r} is not for the {location}, so it is ignored"
            )
            style = styles[0]
        explode = parameter.get("explode")
        return style, explode if isinstance(explode, bool) else style == "form"


def with_description(schema: Schema | bool, parameter: dict[str, Any]) -> Schema | bool:
    """The schema of a parameter with the parameter's description, deprecation and example."""
    annotations: Schema = {}
    if description := text(parameter.get("description")):
        annotations["description"] = description
    if parameter.get("deprecated") is True:
        annotations["deprecated"] = True
    if "example" in parameter and _is_short(parameter["example"]):
        annotations["examples"] = [parameter["example"]]
    if schema is True:
        return annotations
    return {**schema, **annotations} if isinstance(schema, dict) else schema


def _is_sendable(name: str, location: str) -> bool:
    return location not in ("header", "cookie") or _TOKEN.fullmatch(name) is not None


def _is_short(value: Any) -> bool:
    return isinstance(value, str | int | float | bool) and len(str(value)) <= MAX_EXAMPLE_BYTES


def _order(location: str) -> int:
    return LOCATIONS.index(location) if location in LOCATIONS else len(LOCATIONS)
