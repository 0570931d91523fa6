"""Recursive conversion of a schema: resolves, reshapes and rewrites each subschema according to the target's table.

Pure module. It decides the order of the steps; `steps` implements those for single keywords.
"""

from __future__ import annotations

from typing import Any, Final

from fairlead_formats.schema import closing, constraint_texts, merge, shapes, steps, untyped
from fairlead_formats.schema.budget import ConversionBudget
from fairlead_formats.schema.refs import SchemaReferences
from fairlead_formats.schema.rules import Cell, SchemaTarget
from fairlead_formats.tool_format import Action
from fairlead_mcp.schemas import APPLICATORS, SINGLES, pointer

JsonObject = dict[str, Any]
SchemaLoss = tuple[str, str, Action, str]
"""(path below the schema, keyword, action, why)"""

_COMBINATORS: Final = frozenset({"allOf", "anyOf", "oneOf"})
_REVERSING_KEYWORDS: Final = frozenset({"not", "if"})
"""Keywords with which the whole schema accepts fewer values if a subschema accepts more. `oneOf` is also such a keyword
if its branches overlap.
"""
_HANDLED_KEYWORDS: Final = frozenset({"$defs", "definitions", "$ref", "$dynamicRef", "$recursiveRef"})


class NotStrict(Exception):
    """Raised within the package when a schema cannot become strict without a loss."""

    def __init__(self, path: str, keyword: str, why: str) -> None:
        super().__init__(why)
        self.path = path
        self.keyword = keyword
        self.why = why


class Walk:
    """Conversion of one schema. Holds the state that its steps share: budget, references and losses so far."""

    def __init__(self, root: JsonObject, target: SchemaTarget) -> None:
        self.target = target
        self.budget = ConversionBudget()
        self.refs = SchemaReferences(root)
        self.losses: list[SchemaLoss] = []
        self.defs: dict[str, str] = {}
        """Maps each name below `$defs` to the reference that it was made for."""
        self.depth = 0
        """Level of the schema for which a step is called."""
        self._active: list[str] = []
        """References whose targets are being converted, outermost first."""
        self._reversed = False
        """Whether a subschema below a keyword of `_REVERSING_KEYWORDS` is being converted."""

    def report_loss(self, path: str, keyword: str, action: Action, why: str) -> None:
        """Report a loss. Raises NotStrict if the target is strict and the schema's meaning changes."""
        if self.target.strict and action is not Action.REWRITTEN and keyword not in merge.ANNOTATIONS:
            raise NotStrict(path, keyword, why)
        if self._reversed and action.lossy and keyword not in merge.ANNOTATIONS:
            action = Action.NARROWED
        self.losses.append((path, keyword, action, why))

    def convert_subschema(self, schema: Any, path: str, depth: int) -> JsonObject:
        """A converted subschema. Raises TooMuch, NotStrict."""
        self.budget.charge_node(depth)
        if schema.__class__ is not dict:
            return untyped.to_object_schema(self, schema, path)
        schema = self.drop_malformed(schema, path)
        active_count = len(self._active)
        try:
            if "$ref" in schema or "$dynamicRef" in schema:
                return self._reference(schema, path, depth)
            return self._resolve(schema, path, depth)
        finally:
            del self._active[active_count:]

    def drop_malformed(self, schema: JsonObject, path: str) -> JsonObject:
        """The schema without keywords whose value is malformed."""
        if not _malformed_keywords(schema):
            return schema
        schema = self._modern_bounds(schema, path)
        malformed_keywords = _malformed_keywords(schema)
        for keyword in malformed_keywords:
            action = Action.REWRITTEN if _constrains_nothing(keyword, schema[keyword]) else Action.DROPPED
            self.report_loss(
                path, keyword, action, f"{constraint_texts.compact(schema[keyword])} is not a valid value of {keyword}"
            )
        return {key: value for key, value in schema.items() if key not in malformed_keywords}

    def _modern_bounds(self, schema: JsonObject, path: str) -> JsonObject:
        """Exclusive bounds as numbers. Until draft 6 they were booleans about the inclusive bounds."""
        for keyword, inclusive_keyword in (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")):
            if schema.get(keyword) is True and shapes.SHAPES[inclusive_keyword](schema.get(inclusive_keyword)):
                schema = {**schema, keyword: schema[inclusive_keyword]}
                del schema[inclusive_keyword]
                self.report_loss(path, keyword, Action.REWRITTEN, f"{keyword} of an older draft holds the bound itself")
        return schema

    def merge_all_of(self, schema: JsonObject, path: str, depth: int = 0) -> JsonObject:
        """The schema with the parts of its `allOf` merged. Parts that cannot be merged are left out. Raises TooMuch."""
        self.budget.charge_node(depth)
        rest = {key: value for key, value in schema.items() if key != "allOf"}
        parts = schema["allOf"]
        if len(parts) == 1 and parts[0].__class__ is dict and "$ref" in parts[0] and rest.keys() <= merge.ANNOTATIONS:
            self.report_loss(path, "allOf", Action.REWRITTEN, "allOf with one part was replaced by the part")
            return {**parts[0], **rest}
        for part in parts:
            try:
                merged_schema = merge.intersect(rest, self.follow(part, path), self.budget)
                rest = (
                    merged_schema if isinstance(merged_schema, dict) else {} if merged_schema is True else merge.NOTHING
                )
                rest = self.drop_malformed(rest, path)
            except merge.Unmergeable as error:
                self.report_loss(path, "allOf", Action.WIDENED, f"one part of allOf is left out: {error}")
        self.report_loss(path, "allOf", Action.REWRITTEN, "the parts of allOf are merged")
        return self.merge_all_of(rest, path, depth + 1) if rest.get("allOf") else rest

    def follow(self, schema: Any, path: str) -> Any:
        """The schema with its `$ref`s resolved, without malformed keywords. A recursive reference is left out. Raises
        TooMuch.
        """
        depth = 0
        while isinstance(schema, dict):
            schema = self.drop_malformed(schema, path)
            if "$ref" not in schema:
                break
            ref = schema["$ref"]
            target = self.refs.target(ref)
            rest = {key: value for key, value in schema.items() if key != "$ref"}
            if target is None or ref in self._active:
                self.report_loss(
                    path,
                    "$ref",
                    Action.WIDENED,
                    f"{constraint_texts.compact(ref)} does not resolve, or is recursive",
                )
                return rest
            depth += 1
            self.budget.charge_node(depth)
            self.budget.charge_copy(self.refs.size(ref, target))
            self._active.append(ref)
            schema = self._beside_reference(rest, target, path)
        return schema

    def _beside_reference(self, rest: JsonObject, target: Any, path: str) -> Any:
        """The target of a `$ref` with the keywords next to it. They are left out where they cannot be merged with it.
        Raises TooMuch.
        """
        try:
            return merge.intersect(rest, target, self.budget) if rest else target
        except merge.Unmergeable as error:
            self.report_loss(path, "$ref", Action.WIDENED, f"the keywords next to a $ref are left out: {error}")
            return target

    def _resolve(self, schema: JsonObject, path: str, depth: int) -> JsonObject:
        table = self.target.nested
        if "allOf" in schema and (table["allOf"] is Cell.FIX or len(schema["allOf"]) == 1):
            schema = self.merge_all_of(schema, path)
        if "oneOf" in schema and table["oneOf"] is Cell.FIX:
            schema = steps.replace_one_of(self, schema, path)
        if schema == merge.NOTHING:
            return untyped.to_object_schema(self, False, path)
        if "$ref" in schema:  # it was in a part of `allOf`
            return self._reference(schema, path, depth)
        reshaped = steps.reshape(self, schema, path)
        if reshaped is not schema:
            schema = self.drop_malformed(reshaped, path)
        if "anyOf" in schema and table["anyOf"] is Cell.FIX:
            return steps.isolate_any_of(self, schema, path, depth)
        return self.write(schema, path, depth, table)

    def write(
        self, schema: JsonObject, path: str, depth: int, table: dict[str, Cell], *, partial: bool = False
    ) -> JsonObject:
        """Convert the schema keyword by keyword; steps that concern several keywords have run before. `partial`: the
        keywords are siblings of a `$ref`, so that no required keyword is missing.
        """
        out: JsonObject = {}
        notes: list[str] = []
        for keyword, value in schema.items():
            cell = table.get(keyword)
            if keyword == "items" and "prefixItems" in schema and table.get("prefixItems") is Cell.FIX:
                continue  # the step of `prefixItems` also writes `items`
            if cell is Cell.KEEP:
                out[keyword] = self._convert_value(keyword, value, path, depth)
            elif cell is Cell.FIX:
                self.depth = depth
                steps.STEPS[keyword](self, out, schema, path, notes)
            elif cell is None:
                self._write_unknown(out, keyword, value, path, root=table is self.target.root)
            else:
                self._leave_out(cell, keyword, value, path, notes)
        if "patternProperties" in schema:
            closing.open_to_patterns(self, out, schema, path)
        if partial:
            closing.complete_array(self, out, path)
        else:
            closing.finish(self, out, schema, path)
        if notes:
            out["description"] = constraint_texts.with_notes(out.get("description"), notes)
        if self.target.lone_any_of and "anyOf" in out and len(out) > 1:
            return steps.merge_description_into_branches(out)
        return out

    def _convert_value(self, keyword: str, value: Any, path: str, depth: int) -> Any:
        if keyword not in APPLICATORS and keyword != "dependencies":
            return value
        is_trivial = keyword in SINGLES and (isinstance(value, bool) or not value)
        if is_trivial and (value is False or keyword != "items" or not self.target.typed):
            return value
        was_reversed = self._reversed
        self._reversed = (
            was_reversed or keyword in _REVERSING_KEYWORDS or (keyword == "oneOf" and not self._are_disjoint(value))
        )
        converted = shapes.replace_schemas(
            keyword, value, lambda part, part_path: self.convert_subschema(part, path + part_path, depth + 1)
        )
        self._reversed = was_reversed
        return converted

    def _are_disjoint(self, branches: list[Any]) -> bool:
        return merge.are_disjoint([self.refs.peek(branch) for branch in branches])

    def _write_unknown(self, out: JsonObject, keyword: str, value: Any, path: str, *, root: bool) -> None:
        if keyword in _HANDLED_KEYWORDS:
            return
        if (self.target.unknown_root if root else self.target.unknown) is Cell.KEEP:
            out[keyword] = value
        else:
            self.report_loss(path, keyword, Action.DROPPED, f"{self.target.name} does not support {keyword}")

    def _leave_out(self, cell: Cell, keyword: str, value: Any, path: str, notes: list[str]) -> None:
        why = f"{self.target.name} does not support {keyword} at this path"
        if cell is Cell.NOTE:
            sentence = constraint_texts.describe(keyword, value)
            if sentence:
                is_description = keyword == "description"
                self.report_loss(path, keyword, Action.REWRITTEN if is_description else Action.DESCRIBED, why)
                notes.append(sentence)
        elif cell is Cell.OPEN:
            if value is not True and value != {}:
                closing.leave_open(self, keyword, value, path, notes)
        else:
            self.report_loss(path, keyword, Action.DROPPED, why)

    def _reference(self, schema: JsonObject, path: str, depth: int) -> JsonObject:
        ref = schema.get("$ref", schema.get("$dynamicRef"))
        target = self.refs.target(ref)
        rest = {key: value for key, value in schema.items() if key not in _HANDLED_KEYWORDS}
        if target is None or not isinstance(ref, str):
            self.report_loss(
                path, "$ref", Action.WIDENED, f"{constraint_texts.compact(ref)} does not resolve in this definition"
            )
            return self.convert_subschema(rest, path, depth + 1)
        if self.target.refs and not self._combines(rest):
            return self._keep_reference(ref, rest, path, depth)
        if ref in self._active:
            return untyped.cut_recursion(self, ref, target, rest, path)
        self.report_loss(path, "$ref", Action.REWRITTEN, f"{ref} was replaced by its target")
        self.budget.charge_copy(self.refs.size(ref, target))
        merged_schema = self._beside_reference(rest, target, path)
        self._active.append(ref)
        return self.convert_subschema(merged_schema, path, depth + 1)

    def _combines(self, rest: JsonObject) -> bool:
        """Whether siblings of a `$ref` have to be converted, for which the `$ref` must be resolved."""
        return any(self.target.nested.get(keyword) is Cell.FIX for keyword in rest.keys() & _COMBINATORS)

    def _keep_reference(self, ref: str, rest: JsonObject, path: str, depth: int) -> JsonObject:
        new_ref = ref
        if ref != "#":
            name = self.refs.name(ref)
            self.defs.setdefault(name, ref)
            new_ref = "#" + pointer("$defs", name)
        if new_ref != ref:
            self.report_loss(path, "$ref", Action.REWRITTEN, f"{ref} became {new_ref}")
        if not rest:
            return {"$ref": new_ref}
        rest = self.drop_malformed(steps.modernize_tuple(self, rest, path), path)
        converted = self.write(rest, path, depth, self.target.nested, partial=True)
        if not self.target.bare_refs:
            return {"$ref": new_ref, **converted}
        if rest.keys() <= merge.ANNOTATIONS:
            self.report_loss(path, "$ref", Action.REWRITTEN, "the $ref was wrapped in anyOf: it must not have siblings")
            return {"anyOf": [{"$ref": new_ref}], **converted}
        raise NotStrict(path, "$ref", f"{ref} has other keywords next to it")


def _malformed_keywords(schema: JsonObject) -> list[str]:
    return [key for key, value in schema.items() if (check := shapes.SHAPES.get(key)) and not check(value)]


def _constrains_nothing(keyword: str, value: Any) -> bool:
    """Whether a malformed value constrains nothing, however it is read."""
    return value is None or (value is False and keyword in ("exclusiveMinimum", "exclusiveMaximum"))
