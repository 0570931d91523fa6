"""Rewrites a tool's `inputSchema` for clients: arguments are renamed, hidden, described and given defaults. Pure.

A name may stand in any subschema that applies to the arguments object itself: below `allOf`, `anyOf`, `oneOf`, `not`,
`if`, `then`, `else`, `dependentSchemas` and `$ref`. Such a subschema is rewritten; the schemas of nested values stay.
A definition that a `$ref` at the arguments object names is copied, because nested values may refer to it too, and a
nested reference to the root is led to a copy of the original root.

A hidden argument is known to be present (with a value) or absent in every call, so what a schema says about it is
decided here: a `required` that it satisfies is dropped, a branch of `oneOf` that it rules out is left out.
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
"""With `items`, which may be a list until draft 2019-09."""
_PLAIN_NAMES: Final = frozenset({"enum", "type", "description"})
"""Keywords of a `propertyNames` whose names can be rewritten."""
_ROOT_COPY: Final = "original"
"""Name of the definition that holds the original root, for nested references to it."""


class UnshapeableTool(ValueError):
    """A tool cannot be given the shape that its override describes. The message says why, without the tool's name."""


@dataclass(frozen=True)
class ArgumentPlan:
    """Changes to a tool's arguments for clients. Keys are the server's names."""

    renamed: Mapping[str, str] = field(default_factory=dict)
    """Clients' names."""
    hidden: frozenset[str] = frozenset()
    sent: Mapping[str, Any] = field(default_factory=dict)
    """Values of hidden arguments in every call."""
    unknown: frozenset[str] = frozenset()
    """Hidden arguments that every call contains, with values that are not known here."""
    filled: Mapping[str, Any] = field(default_factory=dict)
    """Defaults of arguments that clients see."""
    descriptions: Mapping[str, str] = field(default_factory=dict)

    def name(self, argument: str) -> str:
        return self.renamed.get(argument, argument)

    def is_sent(self, argument: str) -> bool:
        """Whether every call has this hidden argument."""
        return argument in self.sent or argument in self.unknown


class ShapedSchema:
    """One `inputSchema` in the shape of a plan. Raises UnshapeableTool."""

    def __init__(self, root: Schema, plan: ArgumentPlan) -> None:
        self._root = root
        self._plan = plan
        self._definitions: dict[str, AnySchema] = {}
        """Copied definitions, by name."""
        self._copies: dict[str, str] = {}
        """References to copied definitions, by the original reference."""
        self._needs_root = False
        self._why = ""
        self.arguments: set[str] = set()
        """The server's names of all arguments that the schema describes."""
        self._taken = {name for keyword in DEFINITIONS for name in root.get(keyword, ())}
        self._root_name = self._fresh(_ROOT_COPY)
        shaped = self._apply({key: value for key, value in root.items() if key not in DEFINITIONS})
        if isinstance(shaped, bool):
            raise UnshapeableTool(self._why or "no arguments that a client can send would match the inputSchema")
        self._check_names()
        self.schema = self._with_definitions(shaped)
        """The schema for clients."""

    def _check_names(self) -> None:
        """Refuse two arguments with one name for clients."""
        shown: dict[str, str] = {}
        for argument in sorted(self.arguments - self._plan.hidden):
            other = shown.setdefault(self._plan.name(argument), argument)
            if other != argument:
                raise UnshapeableTool(
                    f"the arguments '{other}' and '{argument}' would both be called '{self._plan.name(argument)}'"
                )

    def _with_definitions(self, shaped: Schema) -> Schema:
        """The shaped root with the original definitions, and with those that were copied."""
        definitions = {
            keyword: {name: self._keep(definition) for name, definition in self._root[keyword].items()}
            for keyword in DEFINITIONS
            if isinstance(self._root.get(keyword), dict)
        }
        if self._needs_root:
            copy = {key: value for key, value in self._root.items() if key not in (*DEFINITIONS, "$id", "$schema")}
            self._definitions[self._root_name] = self._keep(copy)
        if self._definitions:
            definitions["$defs"] = {**definitions.get("$defs", {}), **self._definitions}
        return {**shaped, **definitions}

    def _fresh(self, name: str) -> str:
        """A name that no other definition has."""
        number, fresh = 2, name
        while fresh in self._taken:
            fresh, number = f"{name}_{number}", number + 1
        self._taken.add(fresh)
        return fresh

    def _apply(self, schema: AnySchema) -> AnySchema:
        """A schema of the arguments object, rewritten; False if no call could match it."""
        if not isinstance(schema, dict):
            return schema
        shaped: Schema = {}
        also: list[AnySchema] = []
        for keyword, value in schema.items():
            if not self._keyword(keyword, value, shaped, also):
                return False
        return self._join(shaped, also) and self._decide_branches(shaped)

    def _keyword(self, keyword: str, value: Any, shaped: Schema, also: list[AnySchema]) -> bool:
        """Add one keyword to `shaped`, and schemas that have to hold too to `also`. False if no call could match."""
        if keyword == "properties" and isinstance(value, dict):
            return self._properties(value, shaped)
        if keyword == "required" and isinstance(value, list):
            return self._required(value, shaped)
        if keyword in ("dependentRequired", "dependentSchemas", "dependencies") and isinstance(value, dict):
            self._dependencies(keyword, value, shaped, also)
            return True
        if keyword == "$ref" and isinstance(value, str):
            target = self._reference(value)
            if isinstance(target, bool):
                return target
            shaped[keyword] = target
        elif keyword in ("allOf", "anyOf", "oneOf") and isinstance(value, list):
            shaped[keyword] = [self._apply(branch) for branch in value]
        elif keyword in ("not", "if", "then", "else"):
            shaped[keyword] = self._apply(value)
        else:
            shaped[keyword] = self._renamed(keyword, value)
        return True

    def _renamed(self, keyword: str, value: Any) -> Any:
        """Rename the arguments in the value of a keyword that names arguments or applies to all of them; other keywords
        are unchanged.
        """
        match keyword:
            case "minProperties" | "maxProperties" if isinstance(value, int):
                return max(0, value - sum(map(self._plan.is_sent, self._plan.hidden)))
            case "patternProperties" if isinstance(value, dict):
                self._refuse_patterns(value)
            case "propertyNames":
                return self._property_names(value)
            case "const" | "enum" | "$dynamicRef" | "$recursiveRef":
                raise UnshapeableTool(f"the inputSchema uses {keyword}, whose arguments cannot be rewritten")
            case "discriminator" if isinstance(value, dict) and isinstance(value.get("propertyName"), str):
                return {**value, "propertyName": self._plan.name(value["propertyName"])}
            case "default":
                return self._rename_members(value)
            case "examples" if isinstance(value, list):
                return [self._rename_members(example) for example in value]
        return self._keep_keyword(keyword, value)

    def _properties(self, properties: Mapping[str, Any], shaped: Schema) -> bool:
        made = {}
        for argument, below in properties.items():
            self.arguments.add(argument)
            if argument not in self._plan.hidden:
                made[self._plan.name(argument)] = self._describe(argument, self._keep(below))
            elif argument in self._plan.sent:
                fault = self._fault_of_value(below, self._plan.sent[argument])
                if fault:
                    self._why = f"the value of the argument '{argument}' does not match its schema: {fault}"
                    return False
        shaped["properties"] = made
        return True

    def _required(self, required: Iterable[Any], shaped: Schema) -> bool:
        needed = []
        for argument in required:
            if argument in self._plan.hidden:
                if not self._plan.is_sent(argument):
                    self._why = f"the hidden argument '{argument}' is required and has no value"
                    return False
            elif argument not in self._plan.filled:
                needed.append(self._plan.name(argument) if isinstance(argument, str) else argument)
        if needed:
            shaped["required"] = needed
        return True

    def _dependencies(self, keyword: str, value: Mapping[str, Any], shaped: Schema, also: list[AnySchema]) -> None:
        """Dependencies of an argument on others (`dependentRequired`, `dependentSchemas`, and drafts 4 to 7)."""
        made: dict[str, Any] = {}
        for argument, dependency in value.items():
            if argument in self._plan.hidden and not self._plan.is_sent(argument):
                continue
            names: Schema = {"required": dependency} if isinstance(dependency, list) else dependency
            applied = self._apply(names)
            if argument in self._plan.hidden:
                also.append(applied)
            elif not isinstance(dependency, list):
                made[self._plan.name(argument)] = applied
            elif applied is False:  # needs an argument that no call has
                also.append({"properties": {self._plan.name(argument): False}})
            else:
                made[self._plan.name(argument)] = applied.get("required", []) if isinstance(applied, dict) else []
        if made:
            shaped[keyword] = made

    def _reference(self, reference: str) -> str | bool:
        """The reference to a rewritten copy of a definition; a boolean if the definition is decided."""
        if reference in ("", "#"):
            return "#"
        if not reference.startswith("#/"):
            raise UnshapeableTool(f"the inputSchema refers to {reference[:80]}, whose arguments cannot be rewritten")
        earlier = self._copies.get(reference)
        if earlier is not None:
            return earlier
        try:
            target = follow_pointer(self._root, reference[1:])
        except UnresolvedReference as error:
            raise UnshapeableTool(f"the inputSchema refers to {reference[:80]}, which it does not have") from error
        if not isinstance(target, dict | bool):
            raise UnshapeableTool(f"the inputSchema refers to {reference[:80]}, which is not a schema")
        name = self._fresh(f"{reference.rpartition('/')[2]}_arguments")
        copied = self._copies[reference] = f"#/$defs/{escape_step(name)}"
        shaped = self._apply(target)
        if isinstance(shaped, bool):
            self._definitions[name] = shaped  # a cycle may refer to it
            return shaped
        if shaped == target:
            self._copies[reference] = reference
            return reference
        self._definitions[name] = shaped
        return copied

    def _refuse_patterns(self, patterns: Iterable[str]) -> None:
        """Refuse patterns that match a name which is rewritten: the pattern would match another argument then."""
        affected = {*self._plan.renamed, *self._plan.renamed.values(), *self._plan.hidden}
        for pattern in patterns:
            try:
                matches = any(re.search(pattern, name) for name in affected)
            except re.error:
                matches = bool(affected)
            if matches:
                raise UnshapeableTool(f"the inputSchema describes arguments by the pattern {pattern[:80]!r}")

    def _property_names(self, names: Any) -> Any:
        if not isinstance(names, dict) or not self._plan.renamed.keys() | self._plan.hidden:
            return names
        if names.keys() - _PLAIN_NAMES:
            raise UnshapeableTool("the inputSchema restricts names of arguments (propertyNames)")
        shown = [self._plan.name(name) for name in names.get("enum", []) if name not in self._plan.hidden]
        return {**names, "enum": shown} if "enum" in names else names

    def _describe(self, argument: str, below: AnySchema) -> AnySchema:
        description, filled = self._plan.descriptions.get(argument), argument in self._plan.filled
        if below is False or (description is None and not filled):
            return below
        described: Schema = {} if below is True else {**below}
        if description is not None:
            described["description"] = description
        if filled:
            fault = self._fault_of_value(below, self._plan.filled[argument])
            if fault:
                raise UnshapeableTool(f"the default of the argument '{argument}' does not match its schema: {fault}")
            described["default"] = self._plan.filled[argument]
        return described

    def _rename_members(self, value: Any) -> Any:
        """An example of arguments, with the clients' names."""
        if not isinstance(value, dict):
            return value
        return {self._plan.name(name): member for name, member in value.items() if name not in self._plan.hidden}

    def _fault_of_value(self, below: Any, value: Any) -> str:
        """Why a value does not match the schema of its argument; empty if it does, or if that cannot be decided."""
        definitions = {key: self._root[key] for key in (*DEFINITIONS, "$schema") if key in self._root}
        try:
            jsonschema_rs.validator_for({**definitions, "allOf": [below]}, offline=True).validate(value)
        except jsonschema_rs.ValidationError as error:
            return error.message[:200]
        except (ValueError, RecursionError):
            return ""
        return ""

    def _keep(self, schema: Any) -> Any:
        """A schema of a nested value: unchanged, but with references to the root led to the original root."""
        if not isinstance(schema, dict):
            return schema
        copy = {keyword: self._keep_keyword(keyword, value) for keyword, value in schema.items()}
        reference = copy.get("$ref")
        if isinstance(reference, str) and (reference == "#" or self._leads_into_root(reference)):
            self._needs_root = True
            copy["$ref"] = f"#/$defs/{self._root_name}{reference[1:]}"
        return copy

    def _keep_keyword(self, keyword: str, value: Any) -> Any:
        if keyword in _MAPS and isinstance(value, dict):
            return {name: self._keep(below) for name, below in value.items()}
        if keyword in _LISTS and isinstance(value, list):
            return [self._keep(below) for below in value]
        return self._keep(value) if keyword in KEYWORDS else value

    @staticmethod
    def _leads_into_root(reference: str) -> bool:
        """Whether a reference names a part of the root other than a definition."""
        return reference.startswith("#/") and reference[2:].partition("/")[0] not in DEFINITIONS

    def _join(self, shaped: Schema, also: list[AnySchema]) -> bool:
        """Add schemas that also have to match. Returns False if one of them never matches."""
        if False in also:
            return False
        further = [schema for schema in also if schema not in (True, {})]
        if further:
            shaped["allOf"] = [*shaped.get("allOf", []), *further]
        return True

    @staticmethod
    def _decide_branches(shaped: Schema) -> AnySchema:
        """Leave out branches that can be decided. Returns False if no call could match the schema."""
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
