"""Rewrites a tool's `inputSchema` for clients: arguments are renamed, hidden, described and given defaults. Pure.

Names of arguments may occur in every subschema that applies to the arguments object itself: in `allOf`, `anyOf`,
`oneOf`, `not`, `if`, `then`, `else`, `dependentSchemas` and `$ref`. These subschemas are rewritten; the schemas of
nested values are not. If the arguments object refers to a definition by `$ref`, a copy of the definition is rewritten,
because nested values may refer to the definition too. References from nested values to the root are redirected to a
copy of the original root.

A hidden argument is present (with a value) in every call, or in none. Keywords about it are therefore evaluated here: a
`required` that it satisfies is dropped, and so is a branch of `anyOf` or `oneOf` that it contradicts.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

import jsonschema_rs

from fairlead_mcp.schemas import (
    DEFINITIONS,
    KEYWORDS,
    LISTS,
    MAPS,
    Schema,
    UnresolvedReference,
    escape_step,
    follow_pointer,
)

AnySchema: TypeAlias = Schema | bool
_MAPS: Final = MAPS | DEFINITIONS | {"dependencies"}
_LISTS: Final = LISTS | {"items"}
"""Keywords with a list of schemas, including `items`, which may be a list up to draft 2019-09."""
_REWRITABLE_KEYWORDS: Final = frozenset({"enum", "type", "description"})
"""Keywords that a `propertyNames` may have so that its names can be rewritten."""
_ROOT_COPY: Final = "original"
"""Name of the definition that holds the original root, to which nested references are redirected."""


class UnshapeableTool(ValueError):
    """A tool cannot have the shape that its override describes. The message says why, without the tool's name."""


@dataclass(frozen=True)
class ArgumentPlan:
    """Changes to a tool's arguments for clients. Keys are the server's names of the arguments."""

    client_names: Mapping[str, str] = field(default_factory=dict)
    """The clients' names."""
    hidden: frozenset[str] = frozenset()
    values: Mapping[str, Any] = field(default_factory=dict)
    """Values of hidden arguments, which gateways add to every call."""
    secrets: frozenset[str] = frozenset()
    """Hidden arguments that gateways add to every call with the value of a Secret, which is not known here."""
    defaults: Mapping[str, Any] = field(default_factory=dict)
    """Defaults of visible arguments, which gateways add to calls that lack the argument."""
    descriptions: Mapping[str, str] = field(default_factory=dict)

    def name(self, argument: str) -> str:
        """The clients' name of an argument."""
        return self.client_names.get(argument, argument)

    def is_sent(self, argument: str) -> bool:
        """Whether gateways add this hidden argument to every call."""
        return argument in self.values or argument in self.secrets


class ShapedSchema:
    """One `inputSchema` in the shape of a plan. Raises UnshapeableTool."""

    def __init__(self, root: Schema, plan: ArgumentPlan) -> None:
        self._root = root
        self._plan = plan
        self._definitions: dict[str, AnySchema] = {}
        """Copied definitions, by name."""
        self._copies: dict[str, str] = {}
        """Reference to the copy of each copied definition, by the original reference."""
        self._needs_root = False
        self._contradiction = ""
        """Why no call could match a part of the schema; empty if all parts can match."""
        self.arguments: set[str] = set()
        """The server's names of all arguments that the schema describes."""
        self._used_names = {name for keyword in DEFINITIONS for name in root.get(keyword, ())}
        self._root_name = self._unused_name(_ROOT_COPY)
        shaped = self._apply({key: value for key, value in root.items() if key not in DEFINITIONS})
        if isinstance(shaped, bool):
            raise UnshapeableTool(
                self._contradiction or "no arguments that a client can send would match the inputSchema"
            )
        self._check_names()
        self.schema = self._with_definitions(shaped)
        """The schema for clients."""

    def _check_names(self) -> None:
        """Refuse a plan that gives two arguments the same name."""
        owners: dict[str, str] = {}
        for argument in sorted(self.arguments - self._plan.hidden):
            other = owners.setdefault(self._plan.name(argument), argument)
            if other != argument:
                raise UnshapeableTool(
                    f"the arguments '{other}' and '{argument}' would both be called '{self._plan.name(argument)}'"
                )

    def _with_definitions(self, shaped: Schema) -> Schema:
        """The shaped root with the original definitions and the rewritten copies."""
        definitions = {
            keyword: {name: self._copy_nested(definition) for name, definition in self._root[keyword].items()}
            for keyword in DEFINITIONS
            if isinstance(self._root.get(keyword), dict)
        }
        if self._needs_root:
            copy = {key: value for key, value in self._root.items() if key not in (*DEFINITIONS, "$id", "$schema")}
            self._definitions[self._root_name] = self._copy_nested(copy)
        if self._definitions:
            definitions["$defs"] = {**definitions.get("$defs", {}), **self._definitions}
        return {**shaped, **definitions}

    def _unused_name(self, name: str) -> str:
        """A name that no other definition has."""
        number, candidate = 2, name
        while candidate in self._used_names:
            candidate, number = f"{name}_{number}", number + 1
        self._used_names.add(candidate)
        return candidate

    def _apply(self, schema: AnySchema) -> AnySchema:
        """Rewrite a schema that applies to the arguments object; False if no call could match it."""
        if not isinstance(schema, dict):
            return schema
        shaped: Schema = {}
        conjuncts: list[AnySchema] = []
        for keyword, value in schema.items():
            if not self._apply_keyword(keyword, value, shaped, conjuncts):
                return False
        return self._join(shaped, conjuncts) and self._drop_decided_branches(shaped)

    def _apply_keyword(self, keyword: str, value: Any, shaped: Schema, conjuncts: list[AnySchema]) -> bool:
        """Add the rewritten keyword to `shaped`, and other schemas that must match too to `conjuncts`. Returns False if
        no call could match.
        """
        if keyword == "properties" and isinstance(value, dict):
            return self._apply_properties(value, shaped)
        if keyword == "required" and isinstance(value, list):
            return self._apply_required(value, shaped)
        if keyword in ("dependentRequired", "dependentSchemas", "dependencies") and isinstance(value, dict):
            self._apply_dependencies(keyword, value, shaped, conjuncts)
            return True
        if keyword == "$ref" and isinstance(value, str):
            target = self._rewrite_reference(value)
            if isinstance(target, bool):
                return target
            shaped[keyword] = target
        elif keyword in ("allOf", "anyOf", "oneOf") and isinstance(value, list):
            shaped[keyword] = [self._apply(branch) for branch in value]
        elif keyword in ("not", "if", "then", "else"):
            shaped[keyword] = self._apply(value)
        else:
            shaped[keyword] = self._rename_arguments(keyword, value)
        return True

    def _rename_arguments(self, keyword: str, value: Any) -> Any:
        """Rename the arguments in the value of a keyword that names arguments or applies to all of them; other keywords
        are unchanged.
        """
        match keyword:
            case "minProperties" | "maxProperties" if isinstance(value, int):
                return max(0, value - sum(map(self._plan.is_sent, self._plan.hidden)))
            case "patternProperties" if isinstance(value, dict):
                self._refuse_patterns(value)
            case "propertyNames":
                return self._rewrite_property_names(value)
            case "const" | "enum" | "$dynamicRef" | "$recursiveRef":
                raise UnshapeableTool(f"the inputSchema uses {keyword}, whose arguments cannot be rewritten")
            case "discriminator" if isinstance(value, dict) and isinstance(value.get("propertyName"), str):
                return {**value, "propertyName": self._plan.name(value["propertyName"])}
            case "default":
                return self._rename_members(value)
            case "examples" if isinstance(value, list):
                return [self._rename_members(example) for example in value]
        return self._copy_nested_keyword(keyword, value)

    def _apply_properties(self, properties: Mapping[str, Any], shaped: Schema) -> bool:
        visible = {}
        for argument, subschema in properties.items():
            self.arguments.add(argument)
            if argument not in self._plan.hidden:
                visible[self._plan.name(argument)] = self._describe(argument, self._copy_nested(subschema))
            elif argument in self._plan.values:
                fault = self._value_fault(subschema, self._plan.values[argument])
                if fault:
                    self._contradiction = f"the value of the argument '{argument}' does not match its schema: {fault}"
                    return False
        shaped["properties"] = visible
        return True

    def _apply_required(self, required: Iterable[Any], shaped: Schema) -> bool:
        names = []
        for argument in required:
            if argument in self._plan.hidden:
                if not self._plan.is_sent(argument):
                    self._contradiction = f"the hidden argument '{argument}' is required and has no value"
                    return False
            elif argument not in self._plan.defaults:
                names.append(self._plan.name(argument) if isinstance(argument, str) else argument)
        if names:
            shaped["required"] = names
        return True

    def _apply_dependencies(
        self, keyword: str, value: Mapping[str, Any], shaped: Schema, conjuncts: list[AnySchema]
    ) -> None:
        """Rewrite `dependentRequired`, `dependentSchemas`, or `dependencies` (drafts 4 to 7)."""
        dependencies: dict[str, Any] = {}
        for argument, dependency in value.items():
            if argument in self._plan.hidden and not self._plan.is_sent(argument):
                continue
            schema: Schema = {"required": dependency} if isinstance(dependency, list) else dependency
            shaped_schema = self._apply(schema)
            if argument in self._plan.hidden:
                conjuncts.append(shaped_schema)
            elif not isinstance(dependency, list):
                dependencies[self._plan.name(argument)] = shaped_schema
            elif shaped_schema is False:  # the argument requires another one that no call has
                conjuncts.append({"properties": {self._plan.name(argument): False}})
            else:
                names = shaped_schema.get("required", []) if isinstance(shaped_schema, dict) else []
                dependencies[self._plan.name(argument)] = names
        if dependencies:
            shaped[keyword] = dependencies

    def _rewrite_reference(self, reference: str) -> str | bool:
        """The reference to a rewritten copy of the definition; a boolean if the copy always or never matches."""
        if reference in ("", "#"):
            return "#"
        if not reference.startswith("#/"):
            raise UnshapeableTool(f"the inputSchema refers to {reference[:80]}, whose arguments cannot be rewritten")
        earlier_copy = self._copies.get(reference)
        if earlier_copy is not None:
            return earlier_copy
        try:
            target = follow_pointer(self._root, reference[1:])
        except UnresolvedReference as error:
            raise UnshapeableTool(f"the inputSchema refers to {reference[:80]}, which it does not have") from error
        if not isinstance(target, dict | bool):
            raise UnshapeableTool(f"the inputSchema refers to {reference[:80]}, which is not a schema")
        name = self._unused_name(f"{reference.rpartition('/')[2]}_arguments")
        copy_reference = self._copies[reference] = f"#/$defs/{escape_step(name)}"
        shaped = self._apply(target)
        if isinstance(shaped, bool):
            self._definitions[name] = shaped  # a cycle may refer to it
            return shaped
        if shaped == target:
            self._copies[reference] = reference
            return reference
        self._definitions[name] = shaped
        return copy_reference

    def _refuse_patterns(self, patterns: Iterable[str]) -> None:
        """Refuse patterns that match a renamed or hidden argument, because they would apply to other arguments then."""
        affected_names = {*self._plan.client_names, *self._plan.client_names.values(), *self._plan.hidden}
        for pattern in patterns:
            try:
                matches = any(re.search(pattern, name) for name in affected_names)
            except re.error:
                matches = bool(affected_names)
            if matches:
                raise UnshapeableTool(f"the inputSchema describes arguments by the pattern {pattern[:80]!r}")

    def _rewrite_property_names(self, names: Any) -> Any:
        if not isinstance(names, dict) or not self._plan.client_names.keys() | self._plan.hidden:
            return names
        if names.keys() - _REWRITABLE_KEYWORDS:
            raise UnshapeableTool("the inputSchema restricts names of arguments (propertyNames)")
        shown_names = [self._plan.name(name) for name in names.get("enum", []) if name not in self._plan.hidden]
        return {**names, "enum": shown_names} if "enum" in names else names

    def _describe(self, argument: str, subschema: AnySchema) -> AnySchema:
        description, has_default = self._plan.descriptions.get(argument), argument in self._plan.defaults
        if subschema is False or (description is None and not has_default):
            return subschema
        described_schema: Schema = {} if subschema is True else {**subschema}
        if description is not None:
            described_schema["description"] = description
        if has_default:
            fault = self._value_fault(subschema, self._plan.defaults[argument])
            if fault:
                raise UnshapeableTool(f"the default of the argument '{argument}' does not match its schema: {fault}")
            described_schema["default"] = self._plan.defaults[argument]
        return described_schema

    def _rename_members(self, value: Any) -> Any:
        """Rewrite an example of an arguments object."""
        if not isinstance(value, dict):
            return value
        return {self._plan.name(name): member for name, member in value.items() if name not in self._plan.hidden}

    def _value_fault(self, subschema: Any, value: Any) -> str:
        """Why a value does not match the schema of its argument; empty if it matches, or if that cannot be decided."""
        definitions = {key: self._root[key] for key in (*DEFINITIONS, "$schema") if key in self._root}
        try:
            jsonschema_rs.validator_for({**definitions, "allOf": [subschema]}, offline=True).validate(value)
        except jsonschema_rs.ValidationError as error:
            return error.message[:200]
        except (ValueError, RecursionError):
            return ""
        return ""

    def _copy_nested(self, schema: Any) -> Any:
        """Copy the schema of a nested value, with references to the root redirected to the original root."""
        if not isinstance(schema, dict):
            return schema
        copy = {keyword: self._copy_nested_keyword(keyword, value) for keyword, value in schema.items()}
        reference = copy.get("$ref")
        if isinstance(reference, str) and (reference == "#" or self._leads_into_root(reference)):
            self._needs_root = True
            copy["$ref"] = f"#/$defs/{self._root_name}{reference[1:]}"
        return copy

    def _copy_nested_keyword(self, keyword: str, value: Any) -> Any:
        if keyword in _MAPS and isinstance(value, dict):
            return {name: self._copy_nested(subschema) for name, subschema in value.items()}
        if keyword in _LISTS and isinstance(value, list):
            return [self._copy_nested(subschema) for subschema in value]
        return self._copy_nested(value) if keyword in KEYWORDS else value

    @staticmethod
    def _leads_into_root(reference: str) -> bool:
        """Whether a reference names a part of the root other than a definition."""
        return reference.startswith("#/") and reference[2:].partition("/")[0] not in DEFINITIONS

    def _join(self, shaped: Schema, conjuncts: list[AnySchema]) -> bool:
        """Add `conjuncts` to the `allOf` of `shaped`. Returns False if one of them never matches."""
        if False in conjuncts:
            return False
        undecided = [schema for schema in conjuncts if schema not in (True, {})]
        if undecided:
            shaped["allOf"] = [*shaped.get("allOf", []), *undecided]
        return True

    @staticmethod
    def _drop_decided_branches(shaped: Schema) -> AnySchema:
        """Remove branches that always or never match. Returns False if no call could match the schema."""
        if "allOf" in shaped:
            if False in shaped["allOf"]:
                return False
            shaped["allOf"] = [branch for branch in shaped["allOf"] if branch is not True and branch != {}]
        for keyword in ("anyOf", "oneOf"):
            if keyword in shaped:
                shaped[keyword] = [branch for branch in shaped[keyword] if branch is not False]
                if not shaped[keyword]:
                    return False
        if "anyOf" in shaped and any(branch is True or branch == {} for branch in shaped["anyOf"]):
            del shaped["anyOf"]
        if shaped.get("allOf") == []:
            del shaped["allOf"]
        if "not" in shaped:
            if shaped["not"] is True or shaped["not"] == {}:
                return False
            if shaped["not"] is False:
                del shaped["not"]
        return shaped
