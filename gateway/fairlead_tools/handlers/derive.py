"""Derives a tool's definition from its handler's signature and docstring, and binds the arguments of calls.

Validation uses pydantic, which no other module of custom tools imports. Validators are compiled when a tool is
registered; a call only validates and converts its arguments.
"""

from __future__ import annotations

import inspect
import typing
import warnings
from collections.abc import Callable
from typing import Annotated, Any, Final

import docstring_parser
import pydantic
from pydantic.fields import FieldInfo
from pydantic.json_schema import GenerateJsonSchema

from fairlead_tools.handlers.context import Context
from fairlead_tools.handlers.prepared import Bind
from fairlead_tools.handlers.problems import BadTool, UnfitArguments

_KEYWORD_KINDS: Final = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


class DocstringParts(typing.NamedTuple):
    """Parsed docstring."""

    description: str
    parameters: dict[str, str]


class Signature(typing.NamedTuple):
    """Input schema and binding of a handler's signature."""

    schema: dict[str, Any]
    """JSON Schema of the arguments."""
    bind: Bind


def documentation(handler: Callable[..., Any]) -> DocstringParts:
    """Parse a docstring in the style of Google, NumPy, reST or Epydoc into descriptions of tool and parameters."""
    text = inspect.getdoc(handler) or ""
    if not isinstance(handler, type) and not inspect.isroutine(handler):
        text = inspect.getdoc(type(handler).__call__) or ""
    docstring = docstring_parser.parse(text)
    parts = [part.strip() for part in (docstring.short_description, docstring.long_description) if part]
    descriptions = {
        param.arg_name: " ".join(param.description.split()) for param in docstring.params if param.description
    }
    return DocstringParts("\n\n".join(parts), descriptions)


def context_parameter(handler: Callable[..., Any]) -> str | None:
    """Return the name of the parameter of type `Context`, or None. Raises BadTool."""
    return next(
        (name for name, hint in _hints(handler).items() if _bare_type(hint) is Context and name != "return"), None
    )


def signature(handler: Callable[..., Any], descriptions: dict[str, str]) -> Signature:
    """Derive schema and binding of a handler that takes keyword arguments. Raises BadTool."""
    fields: dict[str, Any] = {}
    names: dict[str, str] = {}
    allows_extra = False
    hints = _hints(handler)
    for parameter in _parameters(handler):
        hint = hints.get(parameter.name, Any)
        if _bare_type(hint) is Context:
            continue
        if parameter.kind is inspect.Parameter.VAR_KEYWORD:
            allows_extra = True
            continue
        if parameter.kind not in _KEYWORD_KINDS:
            raise BadTool(f"its handler's parameter {parameter.name!r} cannot be passed by keyword")
        field = f"p{len(fields)}"  # a generated name, because pydantic refuses names such as `_x`, `model_x`, `json`
        names[field] = parameter.name
        default = ... if parameter.default is inspect.Parameter.empty else parameter.default
        fields[field] = (_with_description(hint, descriptions.get(parameter.name)), _field(parameter.name, default))
    model = _model(fields, allows_extra)
    return Signature(
        _schema(lambda: model.model_json_schema(schema_generator=_SchemaGenerator)), _binding(model, names)
    )


def output_schema(handler: Callable[..., Any]) -> dict[str, Any] | None:
    """Derive the JSON Schema of a handler's return type, if that type is a class with members; else None."""
    hint = _hints(handler).get("return")
    if not isinstance(hint, type) or hint in (dict, list) or hint.__module__ == "builtins":
        return None
    try:
        adapter: pydantic.TypeAdapter[Any] = pydantic.TypeAdapter(hint)
        schema = _schema(lambda: adapter.json_schema(mode="serialization", schema_generator=_SchemaGenerator))
    except (pydantic.errors.PydanticUserError, BadTool, TypeError):
        return None  # pydantic does not support the type
    return schema if schema.get("type") == "object" and "properties" in schema else None


class _SchemaGenerator(GenerateJsonSchema):
    """Generator of JSON Schemas without titles, because titles only repeat names and cost tokens."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False


def _parameters(handler: Callable[..., Any]) -> list[inspect.Parameter]:
    try:
        return list(inspect.signature(handler).parameters.values())
    except (TypeError, ValueError) as error:
        raise BadTool(f"its handler has no signature to derive a schema from: {error}; give an input_schema") from error


def _hints(handler: Callable[..., Any]) -> dict[str, Any]:
    function = inspect.unwrap(getattr(handler, "func", handler))
    if not inspect.isroutine(function):
        function = getattr(function, "__call__", function)  # noqa: B004  # its hints are wanted, not whether it is one
    try:
        return typing.get_type_hints(function, include_extras=True)
    except (NameError, TypeError, AttributeError) as error:
        raise BadTool(f"the type hints of its handler cannot be read: {error}") from error


def _bare_type(hint: Any) -> Any:
    """The type in a hint, without `Annotated`; `Context | None` becomes Context."""
    if typing.get_origin(hint) is Annotated:
        hint = typing.get_args(hint)[0]
    members = [member for member in typing.get_args(hint) if member is not type(None)]
    return members[0] if members == [Context] else hint


def _with_description(hint: Any, description: str | None) -> Any:
    """Add the docstring's description to a hint, unless a `Field` or string in `Annotated` describes it already."""
    if typing.get_origin(hint) is Annotated:
        for annotation in typing.get_args(hint)[1:]:
            if isinstance(annotation, str):
                return Annotated[hint, pydantic.Field(description=annotation)]
            if isinstance(annotation, FieldInfo) and annotation.description:
                return hint
    return hint if description is None else Annotated[hint, pydantic.Field(description=description)]


def _field(name: str, default: Any) -> Any:
    if isinstance(default, FieldInfo):
        return pydantic.fields.FieldInfo.merge_field_infos(default, alias=name)
    return pydantic.Field(default, alias=name)


def _model(fields: dict[str, Any], allows_extra: bool) -> type[pydantic.BaseModel]:
    config = pydantic.ConfigDict(extra="allow" if allows_extra else "forbid", arbitrary_types_allowed=False)
    try:
        return pydantic.create_model("Arguments", __config__=config, **fields)
    except (pydantic.errors.PydanticUserError, NameError, TypeError) as error:
        raise BadTool(
            f"the type hints of its handler cannot be converted to a JSON Schema: {_first_line(error)}"
        ) from error


def _schema(make: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    with warnings.catch_warnings():
        # pydantic warns that it leaves out defaults that are not JSON, which is intended
        warnings.simplefilter("ignore", pydantic.json_schema.PydanticJsonSchemaWarning)
        try:
            schema = make()
        except pydantic.errors.PydanticUserError as error:
            raise BadTool(
                f"the type hints of its handler cannot be converted to a JSON Schema: {_first_line(error)}"
            ) from error
    schema.pop("title", None)
    return schema


def _binding(model: type[pydantic.BaseModel], names: dict[str, str]) -> Bind:
    validate = model.__pydantic_validator__.validate_python

    def bind(arguments: dict[str, Any]) -> dict[str, Any]:
        try:
            model_arguments = validate(arguments)
        except pydantic.ValidationError as error:
            raise UnfitArguments(_sentence(error, names)) from error
        keyword_arguments = {name: getattr(model_arguments, field) for field, name in names.items()}
        return (
            {**keyword_arguments, **model_arguments.model_extra} if model_arguments.model_extra else keyword_arguments
        )

    return bind


def _sentence(error: pydantic.ValidationError, names: dict[str, str]) -> str:
    """Describe wrong arguments and their paths, without values, which may be secret."""
    faults = []
    for fault in error.errors(include_url=False, include_context=False, include_input=False):
        path = ".".join(names.get(str(part), str(part)) for part in fault["loc"])
        faults.append(f"{path}: {fault['msg']}" if path else fault["msg"])
    return "; ".join(faults)


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]
