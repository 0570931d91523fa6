"""Validation rules: CEL for the API server, a message, and the same check in Python.

Each `ValidationRule` is declared once, next to the model or field that it guards. The CRD generator copies CEL and
message into the schema; pydantic runs the predicate. A manifest is therefore rejected with the same message on and off
a cluster. Has no I/O, and does not import operator or gateway.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Literal

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

VALIDATIONS: Final = "x-kubernetes-validations"
RULE_ERROR: Final = "fairlead_rule"
"""Type of pydantic's errors for broken rules; their context has `violations`: (field path, message) pairs."""


@dataclass(frozen=True, slots=True)
class ValidationRule:
    """A condition on one object or value. As metadata of an annotated type, it guards values of that type."""

    cel: str
    """CEL expression over `self`. Its estimated cost must be bounded, or an API server rejects the schema. Members with
    the name of a CEL keyword are escaped (`__package__`), as API servers before 1.33 require."""
    message: str
    """One sentence that says what to do, without line breaks and computed values."""
    holds: Callable[[Any], bool] | None
    """Equivalent condition in Python. None: the rule applies on a cluster only."""
    path: str = ""
    """Field at fault, relative to `self`, such as `.command`; empty for the object itself."""
    reason: Literal["FieldValueInvalid", "FieldValueForbidden", "FieldValueRequired"] | None = None

    def as_validation(self) -> dict[str, str]:
        """The entry of `x-kubernetes-validations`."""
        entry = {"rule": self.cel, "message": self.message}
        if self.path:
            entry["fieldPath"] = self.path
        if self.reason:
            entry["reason"] = self.reason
        return entry

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        def check(value: Any) -> Any:
            enforce((self,), value)
            return value

        return core_schema.no_info_after_validator_function(check, handler(source))

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        described = handler(schema)
        return {**described, VALIDATIONS: [*described.get(VALIDATIONS, ()), self.as_validation()]}


def enforce(rules: tuple[ValidationRule, ...], value: Any) -> None:
    """Raise one PydanticCustomError with all rules that `value` breaks."""
    broken = [(rule.path, rule.message) for rule in rules if rule.holds is not None and not rule.holds(value)]
    if broken:
        raise PydanticCustomError(
            RULE_ERROR, "{text}", {"text": "; ".join(message for _, message in broken), "violations": broken}
        )
