"""Refusals of providers, as an executable rule set that knows nothing of the converter.

`violations(format, tool, model)` takes one definition in a provider's form and returns a sentence per broken rule. SDK
types accept anything, so they prove nothing here; the rules are those of the providers' documentation, of transformers
that run in production, and of reports from the field. `test_format_rules` holds payloads that were really refused.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import jsonschema_rs

import formatenvelopes
from formatenvelopes import Tool
from formatplaces import (
    ANTHROPIC_ROOT,
    COMBINATORS,
    GEMINI_SCHEMA,
    NO_STRICT_CLAUDE,
    NO_STRICT_OPENAI,
    STRICT_FORMATS,
    TYPES,
    Place,
    places,
)

Check = Callable[[Tool, "Rules"], Iterator[str]]


@dataclass(frozen=True)
class Rules:
    """One target's rules."""

    open_envelope: Callable[[dict[str, Any]], Tool]
    name: str = r"[A-Za-z0-9_-]{1,64}"
    checks: tuple[Check, ...] = ()
    description_required: bool = False
    max_description: int | None = None
    schema_optional: bool = False
    extra: frozenset[str] = field(default_factory=frozenset)


def violations(format_name: str, tool: dict[str, Any], model: str | None = None) -> list[str]:
    """The rules that a definition breaks, in the order of the rules; empty if the provider accepts the definition."""
    rules = _rules(format_name, tool, model)
    parts = rules.open_envelope(tool)
    problems = list(parts.problems)
    if not isinstance(parts.name, str) or not re.fullmatch(rules.name, parts.name):
        problems.append(f"name {str(parts.name)[:80]!r} does not match {rules.name}")
    if rules.description_required and not (isinstance(parts.description, str) and parts.description.strip()):
        problems.append("the description is empty")
    limit = rules.max_description
    if limit and isinstance(parts.description, str) and len(parts.description) > limit:
        problems.append(f"the description is longer than {limit}")
    if parts.schema is None and rules.schema_optional:
        return problems
    if not isinstance(parts.schema, dict) or parts.schema.get("type") not in ("object", "OBJECT"):
        return [*problems, "the root is not of type object"]
    for check in rules.checks:
        problems += check(parts, rules)
    return problems


# Checks, one rule each


def well_formed(tool: Tool, rules: Rules) -> Iterator[str]:
    try:
        jsonschema_rs.meta.validate({**tool.schema, "$schema": "https://json-schema.org/draft/2020-12/schema"})
    except jsonschema_rs.ValidationError as error:
        yield f"no JSON Schema at {error.instance_path}: {error.message[:120]}"


def has_properties(tool: Tool, rules: Rules) -> Iterator[str]:
    if not isinstance(tool.schema.get("properties"), dict):
        yield "object schema missing properties"


def no_root_combinators(tool: Tool, rules: Rules) -> Iterator[str]:
    for keyword in sorted(tool.schema.keys() & (COMBINATORS | {"enum", "const", "not"})):
        yield f"schema must not have {keyword} at the top level"


def arrays_have_items(tool: Tool, rules: Rules) -> Iterator[str]:
    for node in places(tool.schema):
        kind = node.schema.get("type") if isinstance(node.schema, dict) else None
        kinds = [str(k).lower() for k in (kind if isinstance(kind, list) else [kind])]
        if "array" in kinds and "items" not in node.schema:
            yield f"{node.path}: array schema missing items"


def patterns_are_python(tool: Tool, rules: Rules) -> Iterator[str]:
    for node in places(tool.schema):
        schema = node.schema if isinstance(node.schema, dict) else {}
        for pattern in (schema.get("pattern"), *schema.get("patternProperties", ())):
            if isinstance(pattern, str):
                try:
                    with warnings.catch_warnings():
                        warnings.simplefilter("ignore", FutureWarning)
                        re.compile(pattern)
                except (re.error, OverflowError) as error:
                    yield f"{node.path}: pattern is not a regex: {error}"


def no_lookaround(tool: Tool, rules: Rules) -> Iterator[str]:
    for node in places(tool.schema):
        pattern = node.schema.get("pattern") if isinstance(node.schema, dict) else None
        if isinstance(pattern, str) and re.search(r"\(\?<?[=!]", pattern):
            yield f"{node.path}: pattern with look-around"


def references_resolve(tool: Tool, rules: Rules) -> Iterator[str]:
    for node in places(tool.schema):
        ref = node.schema.get("$ref") if isinstance(node.schema, dict) else None
        if ref is None or ref == "#":
            continue
        name = str(ref).removeprefix("#/$defs/").replace("~1", "/").replace("~0", "~")
        if not str(ref).startswith("#/$defs/") or name not in tool.schema.get("$defs", {}):
            yield f"{node.path}: reference {ref} can not be resolved within $defs"


def no_references(tool: Tool, rules: Rules) -> Iterator[str]:
    for node in places(tool.schema):
        for keyword in ("$ref", "$defs", "definitions"):
            if isinstance(node.schema, dict) and keyword in node.schema:
                yield f"{node.path}: {keyword} is not followed"


def references_stand_alone(tool: Tool, rules: Rules) -> Iterator[str]:
    for node in places(tool.schema):
        if isinstance(node.schema, dict) and "$ref" in node.schema and len(node.schema) > 1:
            yield f"{node.path}: $ref cannot have keywords {sorted(node.schema.keys() - {'$ref'})}"


def without(keywords: set[str], why: str) -> Check:
    def check(tool: Tool, rules: Rules) -> Iterator[str]:
        for node in places(tool.schema):
            if isinstance(node.schema, dict):
                for keyword in sorted(node.schema.keys() & keywords):
                    yield f"{node.path}: {keyword} {why}"

    return check


def no_booleans(tool: Tool, rules: Rules) -> Iterator[str]:
    for node in places(tool.schema):
        if not isinstance(node.schema, dict):
            yield f"{node.path}: {node.schema!r} is not a schema object"


def objects_are_closed(tool: Tool, rules: Rules) -> Iterator[str]:
    for node in places(tool.schema):
        kind = node.schema.get("type") if isinstance(node.schema, dict) else None
        if (kind == "object" or (isinstance(kind, list) and "object" in kind)) and (
            node.schema.get("additionalProperties") is not False
        ):
            yield f"{node.path}: 'additionalProperties' is required to be supplied and to be false"


def all_required(tool: Tool, rules: Rules) -> Iterator[str]:
    for node in places(tool.schema):
        properties = node.schema.get("properties") if isinstance(node.schema, dict) else None
        missing = set(properties or ()) - set(node.schema.get("required", ())) if properties else set()
        if missing:
            yield f"{node.path}: 'required' must include every key in properties: missing {sorted(missing)}"


def schemas_have_types(tool: Tool, rules: Rules) -> Iterator[str]:
    for node in places(tool.schema):
        if isinstance(node.schema, dict) and not node.schema.keys() & {"type", "anyOf", "$ref", "enum", "const"}:
            yield f"{node.path}: schema must have a 'type' key"


def formats_in(supported: set[str]) -> Check:
    def check(tool: Tool, rules: Rules) -> Iterator[str]:
        for node in places(tool.schema):
            named = node.schema.get("format") if isinstance(node.schema, dict) else None
            if named is not None and named not in supported:
                yield f"{node.path}: {named!r} is not a valid format"

    return check


def enums_agree(tool: Tool, rules: Rules) -> Iterator[str]:
    for node in places(tool.schema):
        if not isinstance(node.schema, dict) or "type" not in node.schema or "enum" not in node.schema:
            continue
        validator = jsonschema_rs.Draft202012Validator({"type": node.schema["type"]})
        for value in node.schema["enum"]:
            if not validator.is_valid(value):
                yield f"{node.path}: enum value {value!r} does not match the declared type"


def openai_limits(tool: Tool, rules: Rules) -> Iterator[str]:
    every = [node for node in places(tool.schema) if isinstance(node.schema, dict)]
    properties = sum(len(node.schema.get("properties", {})) for node in every)
    for enum in (node.schema.get("enum", ()) for node in every):
        if len(enum) > 250 and sum(len(str(value)) for value in enum) > 15_000:
            yield f"an enum of {len(enum)} values with more than 15000 characters"
    values = [value for node in every for value in node.schema.get("enum", ())]
    text = sum(len(name) for node in every for name in node.schema.get("properties", {}))
    text += sum(len(value) for value in values if isinstance(value, str))
    levels = max(node.path.count("/properties/") + node.path.count("/items") for node in every) + 1
    for count, limit, what in (
        (properties, 5000, "properties"),
        (levels, 10, "levels"),
        (len(values), 1000, "enum values"),
        (text, 120_000, "characters"),
    ):
        if count > limit:
            yield f"the schema has {count} {what}; the limit is {limit}"


def claude_limits(tool: Tool, rules: Rules) -> Iterator[str]:
    every = [node.schema for node in places(tool.schema) if isinstance(node.schema, dict)]
    optional = sum(len(set(s.get("properties", {})) - set(s.get("required", ()))) for s in every)
    unions = sum("anyOf" in s or isinstance(s.get("type"), list) for s in every)
    if optional > 24:
        yield f"{optional} optional parameters, more than 24"
    if unions > 16:
        yield f"{unions} unions, more than 16"
    for schema in every:
        if isinstance(schema.get("type"), list):
            yield "the SDK raises on a list of types"
        if schema.get("minItems", 0) > 1:
            yield "minItems may be 0 or 1"


def anthropic_root(tool: Tool, rules: Rules) -> Iterator[str]:
    for keyword in sorted(tool.schema.keys() - ANTHROPIC_ROOT):
        yield f"{keyword} at the root is not read"


def property_keys(tool: Tool, rules: Rules) -> Iterator[str]:
    for node in places(tool.schema):
        for name in node.schema.get("properties", {}) if isinstance(node.schema, dict) else ():
            if not re.fullmatch(r"[a-zA-Z0-9_.-]{1,64}", name):
                yield f"{node.path}: property keys should match the pattern, {name!r} does not"


def not_too_deep(tool: Tool, rules: Rules) -> Iterator[str]:
    """Limit of nesting, which the provider does not publish: it accepts five levels, counting alternatives, and refuses
    six in all reports.
    """
    for node in places(tool.schema):
        if node.depth + (not node.path.startswith("/$defs/")) > 5:  # a definition begins again
            yield f"{node.path}: exceeds the maximum allowed nesting depth"


def gemini_schema(tool: Tool, rules: Rules) -> Iterator[str]:
    for node in places(tool.schema):
        if not isinstance(node.schema, dict):
            yield f"{node.path}: {node.schema!r} is not a Schema"
            continue
        for keyword in sorted(node.schema.keys() - GEMINI_SCHEMA):
            yield f"{node.path}: Unknown name {keyword}"
        yield from _gemini_place(node)


def _gemini_place(node: Place) -> Iterator[str]:
    schema = node.schema
    kind = schema.get("type")
    if "anyOf" in schema:
        if schema.keys() != {"anyOf"}:
            yield f"{node.path}: when using any_of, it must be the only field set"
        return
    if not isinstance(kind, str) or kind.lower() not in TYPES:
        yield f"{node.path}: didn't specify the schema type field"
    if "enum" in schema:
        if str(kind).lower() != "string":
            yield f"{node.path}: enum: only allowed for STRING type"
        for value in schema["enum"]:
            if not isinstance(value, str) or not value:
                yield f"{node.path}: enum: {value!r} cannot be empty, and must be a string"
    if schema.get("format") not in (None, "date-time", "enum") and str(kind).lower() == "string":
        yield f"{node.path}: only 'enum' and 'date-time' are supported for STRING type"
    for name in schema.get("required", ()):
        if name not in schema.get("properties", {}):
            yield f"{node.path}: required[{name}]: property is not defined"
    if str(kind).lower() == "object" and node.path == "" and not schema.get("properties"):
        yield "properties: should be non-empty for OBJECT type"


# Targets

_OPENAI: tuple[Check, ...] = (well_formed, has_properties, arrays_have_items, patterns_are_python, references_resolve)
_OPENAI_STRICT: tuple[Check, ...] = (
    *_OPENAI,
    no_root_combinators,
    objects_are_closed,
    all_required,
    schemas_have_types,
    references_stand_alone,
    no_booleans,
    no_lookaround,
    without(NO_STRICT_OPENAI, "is not permitted"),
    formats_in(STRICT_FORMATS),
    enums_agree,
    openai_limits,
)
_CLAUDE_STRICT: tuple[Check, ...] = (
    well_formed,
    has_properties,
    references_resolve,
    references_stand_alone,
    objects_are_closed,
    schemas_have_types,
    no_booleans,
    enums_agree,
    without(NO_STRICT_CLAUDE, "is not supported"),
    formats_in(STRICT_FORMATS | {"uri"}),
    claude_limits,
    anthropic_root,
    property_keys,
)
_ANTHROPIC: tuple[Check, ...] = (
    well_formed,
    has_properties,
    references_resolve,
    anthropic_root,
    enums_agree,
    property_keys,
    without({"oneOf"}, "is not supported by every model"),
    without({"definitions"}, "is not followed"),
)
_BEDROCK: tuple[Check, ...] = (well_formed, has_properties, no_root_combinators, property_keys)
_GEMINI_JSON: tuple[Check, ...] = (
    well_formed,
    references_resolve,
    no_root_combinators,
    not_too_deep,
    without({"title", "const", "allOf", "exclusiveMinimum", "exclusiveMaximum"}, "is refused"),
)
_GEMINI_NAME = r"[A-Za-z_][A-Za-z0-9_.:-]{0,63}"


def _rules(format_name: str, tool: dict[str, Any], model: str | None) -> Rules:
    if format_name in {"openai-chat", "azure-openai", "openai-responses", "openai-realtime", "openai-functions"}:
        return _openai_rules(format_name, tool, model)
    if format_name == "anthropic":
        strict = tool.get("strict") is True
        return Rules(formatenvelopes.anthropic, checks=_CLAUDE_STRICT if strict else _ANTHROPIC)
    checks: tuple[Check, ...]
    if format_name in {"gemini", "gemini-live"}:
        live = format_name == "gemini-live"
        if not live and "parametersJsonSchema" in tool:
            return Rules(formatenvelopes.gemini("parametersJsonSchema", live=False), _GEMINI_NAME, _GEMINI_JSON)
        checks = (gemini_schema, arrays_have_items, not_too_deep)
        return Rules(formatenvelopes.gemini("parameters", live=live), _GEMINI_NAME, checks, schema_optional=True)
    claude = "claude" in (model or "")
    spec = tool.get("toolSpec")
    strict = isinstance(spec, dict) and spec.get("strict") is True
    lax = (*_BEDROCK, references_resolve) if claude else (*_BEDROCK, no_references, no_lookaround)
    if strict and not claude:
        lax = (*lax, lambda tool, rules: iter(["strict is known to Claude only"]))
    return Rules(
        formatenvelopes.bedrock,
        r"[A-Za-z][A-Za-z0-9_-]{0,63}",
        _CLAUDE_STRICT if strict and claude else lax,
        description_required=True,
    )


def _openai_rules(format_name: str, tool: dict[str, Any], model: str | None) -> Rules:
    flat = {"type", "name", "description", "parameters"}
    envelopes: dict[str, Callable[[dict[str, Any]], Tool]] = {
        "openai-responses": formatenvelopes.responses,
        "openai-realtime": formatenvelopes.flat(flat),
        "openai-functions": formatenvelopes.flat(flat - {"type"}, kind=False),
    }
    read = envelopes.get(format_name, formatenvelopes.chat)
    checks = _OPENAI_STRICT if read(tool).strict is True else _OPENAI
    family = re.search(r"gpt-(\d+)", model or "")
    if not (family and int(family[1]) >= 5) and checks is _OPENAI:
        checks = (*_OPENAI, no_root_combinators)
    return Rules(read, checks=checks, max_description=1024)
