"""Requests that the scripted Gemini API rejects.

Pure module; the rules and their sources are in `request_rules.gemini`.
"""

from __future__ import annotations

import base64
import binascii
import itertools
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from fairlead_formats.providers.gemini.thinking import LEVELS, levels_of
from fairlead_formats.request_rules.rule import BrokenRule, SchemaCheck
from fairlead_formats.request_rules.table import broken

_STAND_IN: Final = "skip_thought_signature_validator"
_PREFIX: Final = b"signature "
_FUNCTIONS: Final = ("functionDeclarations", "function_declarations")
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_.:-]{0,127}")
_MAX_FUNCTIONS: Final = 512
_DATA: Final = frozenset(
    {
        "text",
        "inlineData",
        "fileData",
        "functionCall",
        "functionResponse",
        "executableCode",
        "codeExecutionResult",
        "toolCall",
        "toolResponse",
    }
)
_DECLARATION: Final = frozenset(
    {"name", "description", "parameters", "parametersJsonSchema", "response", "responseJsonSchema", "behavior"}
)
_SCHEMA: Final = frozenset(
    {
        "type",
        "format",
        "title",
        "description",
        "nullable",
        "enum",
        "properties",
        "required",
        "items",
        "anyOf",
        "default",
        "example",
        "minItems",
        "maxItems",
        "minProperties",
        "maxProperties",
        "minLength",
        "maxLength",
        "minimum",
        "maximum",
        "pattern",
        "propertyOrdering",
    }
)
"""Members of the message `Schema`."""
_TYPES: Final = frozenset({"STRING", "NUMBER", "INTEGER", "BOOLEAN", "ARRAY", "OBJECT", "NULL"})
_FORMATS: Final = (None, "enum", "date-time")
_BEFORE_SIGNATURES: Final = re.compile(r"gemini-[12]\b")

Content = Mapping[str, Any]


def signature(number: int) -> str:
    """Signature of the thoughts in the answer with this number."""
    return base64.b64encode(_PREFIX + b"%04d" % number).decode()


def fault(request: Mapping[str, Any], check_schema: SchemaCheck, path: str = "") -> BrokenRule | None:
    """The first rule that a request breaks; None if it breaks none. `path`: the request's path, which has the model."""
    try:
        return next(_faults(request, check_schema, path), None)
    except (AttributeError, KeyError, TypeError) as error:
        return broken("gemini-value", why=error)


def _faults(request: Mapping[str, Any], check_schema: SchemaCheck, path: str) -> Iterator[BrokenRule]:
    if "fairlead" in request:
        yield broken("gemini-member", name="fairlead")
    functions = list(_functions(request))
    yield from _tool_faults(request, [function.get("name") for *_, function in functions])
    for tool, index, function in functions:
        yield from _function_faults(tool, index, function, check_schema)
    yield from _thinking_faults(request.get("generationConfig") or {}, path)
    yield from _content_faults(request.get("contents", []), signatures=_BEFORE_SIGNATURES.search(path) is None)


def _thinking_faults(config: Mapping[str, Any], path: str) -> Iterator[BrokenRule]:
    thinking = config.get("thinkingConfig") or {}
    level = thinking.get("thinkingLevel")
    if level is None:
        return
    if thinking.get("thinkingBudget") is not None:
        yield broken("gemini-thinking-both")
    if str(level).upper() not in (levels_of(path) if "gemini-" in path else LEVELS):
        yield broken("gemini-thinking-level", level=level)


def _functions(request: Mapping[str, Any]) -> Iterator[tuple[int, int, Mapping[str, Any]]]:
    """Declared functions, each with the index of its entry in `tools`, and its own index in that entry."""
    for number, tool in enumerate(request.get("tools") or ()):
        for name in _FUNCTIONS:
            for index, function in enumerate(tool.get(name) or ()):
                yield number, index, {_camel(member): value for member, value in function.items()}


def _camel(name: str) -> str:
    return re.sub("_([a-z])", lambda match: match[1].upper(), name)


def _tool_faults(request: Mapping[str, Any], names: Sequence[object]) -> Iterator[BrokenRule]:
    tools: Sequence[Mapping[str, Any]] = request.get("tools") or []
    with_functions = [tool for tool in tools if any(name in tool for name in _FUNCTIONS)]
    others = any(set(tool) - {*_FUNCTIONS} for tool in tools)
    config = request.get("toolConfig") or {}
    calling = config.get("functionCallingConfig") or {}
    if len(with_functions) > 1:
        yield broken("gemini-functions-once")
    if with_functions and others and not config.get("includeServerSideToolInvocations"):
        yield broken("gemini-functions-combined")
    if calling.get("allowedFunctionNames") and calling.get("mode") not in ("ANY", "VALIDATED"):
        yield broken("gemini-allowed-mode")
    for name in calling.get("allowedFunctionNames") or ():
        if name not in names:
            yield broken("gemini-allowed-names", name=name)
    if request.get("cachedContent") and (tools or config):
        yield broken("gemini-cached")
    if len(names) > _MAX_FUNCTIONS:
        yield broken("gemini-function-count", count=len(names))
    for name, times in Counter(names).items():
        if times > 1:
            yield broken("gemini-function-names-unique", name=name)


def _function_faults(
    tool: int, index: int, function: Mapping[str, Any], check_schema: SchemaCheck
) -> Iterator[BrokenRule]:
    at: dict[str, object] = {"tool": tool, "index": index}
    if not _NAME.fullmatch(str(function.get("name", ""))):
        yield broken("gemini-function-name", **at)
    for name in sorted(function.keys() - _DECLARATION):
        yield broken("gemini-function-member", name=name, **at)
    parameters, json_schema = function.get("parameters"), function.get("parametersJsonSchema")
    if parameters is not None and json_schema is not None:
        yield broken("gemini-two-schemas", **at)
    if json_schema is not None:
        kind = json_schema.get("type") if isinstance(json_schema, dict) else None
        why = check_schema(json_schema) or ("the root has to be an object" if kind != "object" else None)
        if why is not None:
            yield broken("gemini-json-schema", why=why, **at)
    if parameters is not None:
        if isinstance(parameters, dict) and not parameters.get("properties"):
            yield broken("gemini-schema-properties", **at)
        yield from _schema_faults(at, "", parameters)


def _schema_faults(at: dict[str, object], path: str, schema: object) -> Iterator[BrokenRule]:
    location: dict[str, object] = {**at, "path": path}
    if not isinstance(schema, dict):
        yield broken("gemini-schema-value", **location)
        return
    schema = {_camel(member): value for member, value in schema.items()}
    for name in sorted(schema.keys() - _SCHEMA):
        yield broken("gemini-schema-member", name=name, **location)
    if "anyOf" in schema and schema.keys() != {"anyOf"}:
        yield broken("gemini-schema-any-of", **location)
    if "anyOf" not in schema:
        yield from _typed_faults(location, schema)
    for name, part in (schema.get("properties") or {}).items():
        yield from _schema_faults(at, f"{path}.properties.{name}", part)
    for number, part in enumerate(schema.get("anyOf") or ()):
        yield from _schema_faults(at, f"{path}.any_of[{number}]", part)
    if "items" in schema:
        yield from _schema_faults(at, f"{path}.items", schema["items"])


def _typed_faults(at: dict[str, object], schema: Mapping[str, Any]) -> Iterator[BrokenRule]:
    kind = str(schema.get("type")).upper()
    if kind not in _TYPES:
        yield broken("gemini-schema-type", **at)
    if kind == "ARRAY" and "items" not in schema:
        yield broken("gemini-schema-items", **at)
    values = schema.get("enum")
    if values is not None and (kind != "STRING" or not all(isinstance(value, str) and value for value in values)):
        yield broken("gemini-schema-enum", **at)
    if kind == "STRING" and schema.get("format") not in _FORMATS:
        yield broken("gemini-schema-format", **at)
    for number, name in enumerate(schema.get("required") or ()):
        if name not in (schema.get("properties") or ()):
            yield broken("gemini-schema-required", number=number, **at)


def _content_faults(contents: Sequence[Content], *, signatures: bool) -> Iterator[BrokenRule]:
    if not contents:
        yield broken("gemini-contents")
        return
    for number, content in enumerate(contents):
        if content.get("role", "user") not in ("user", "model"):
            yield broken("gemini-role")
        if not content.get("parts"):
            yield broken("gemini-parts", content=number)
        for index, part in enumerate(_parts(content)):
            if not any(_camel(member) in _DATA for member in part):
                yield broken("gemini-part-data", content=number, index=index)
    if contents[-1].get("role") == "model":
        yield broken("gemini-last-role")
    yield from _turn_faults(contents)
    yield from _signature_faults(contents, required=signatures)


def _turn_faults(contents: Sequence[Content]) -> Iterator[BrokenRule]:
    """Faults in the order of calls and responses; adjacent contents of one role count as one content."""
    runs = [list(run) for _, run in itertools.groupby(contents, lambda content: content.get("role"))]
    calls: list[Mapping[str, Any]] = []
    for number, run in enumerate(runs):
        parts = [part for content in run for part in _parts(content)]
        if run[0].get("role") == "model":
            calls = [part["functionCall"] for part in parts if "functionCall" in part]
            if calls and number == 0:
                yield broken("gemini-call-order")
            continue
        responses = [part["functionResponse"] for part in _parts(run[0]) if "functionResponse" in part]
        if responses and not calls:
            yield broken("gemini-response-order")
        elif len(calls) != len(responses):
            yield broken("gemini-response-count", number=number)
        for call, response in zip(calls, responses, strict=False):
            if response.get("id", call.get("id")) != call.get("id") or call.get("name") != response.get("name"):
                yield broken("gemini-response-of-call", name=response.get("name"), number=number)
        calls = []


def _signature_faults(contents: Sequence[Content], *, required: bool) -> Iterator[BrokenRule]:
    turn_start = max((index for index, content in enumerate(contents) if _is_message_of_user(content)), default=0)
    for index, content in enumerate(contents):
        calls = [part for part in _parts(content) if "functionCall" in part]
        signed = [part["thoughtSignature"] for part in calls if "thoughtSignature" in part]
        if required and index > turn_start and calls and "thoughtSignature" not in calls[0]:
            yield broken("gemini-missing-signature", content=index)
        if not all(map(_is_genuine, signed)):
            yield broken("gemini-signature", content=index)


def _is_message_of_user(content: Content) -> bool:
    """Whether a content of the user has more than responses to calls."""
    return content.get("role") != "model" and any("functionResponse" not in part for part in _parts(content))


def _is_genuine(text: str) -> bool:
    try:
        return text == _STAND_IN or base64.b64decode(text, validate=True).startswith(_PREFIX)
    except binascii.Error:
        return False


def _parts(content: Content) -> Sequence[Mapping[str, Any]]:
    """The parts, with member names in camel case; clients write camel case or snake case."""
    return [{_camel(name): value for name, value in part.items()} for part in content.get("parts") or []]
