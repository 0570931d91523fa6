"""One table entry per validation rule: what an API server evaluates (CEL), what is told, and the same check in Python.

A `ValidationRule` stands once, beside the model or field that it guards. The CRD generator copies its CEL and message
into the schema; pydantic runs its predicate. A manifest is therefore refused with the same sentence on a cluster and
off one. Pure: no I/O, nothing of the operator or the gateway.
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
"""Type of the pydantic errors of broken rules; their context holds `violations`: (field path, message) pairs."""


@dataclass(frozen=True, slots=True)
class ValidationRule:
    """A condition on one object or value. As metadata of an annotated type it guards that value."""

    cel: str
    """Over `self`, as Kubernetes evaluates it. Bounded in cost: an API server refuses a schema that is not. Members
    called like a word of CEL are escaped (`__package__`), which API servers before 1.33 ask for."""
    message: str
    """One sentence that says what to do. No line breaks, no figures computed at run time."""
    holds: Callable[[Any], bool] | None
    """Condition in Python, equal to the one in CEL. None: the rule binds on a cluster only."""
    path: str = ""
    """The field that is to blame, relative to `self`, such as `.command`; empty for the object itself."""
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
    """Raise one PydanticCustomError that names every rule that `value` breaks."""
    broken = [(rule.path, rule.message) for rule in rules if rule.holds is not None and not rule.holds(value)]
    if broken:
        raise PydanticCustomError(
            RULE_ERROR, "{text}", {"text": "; ".join(message for _, message in broken), "violations": broken}
        )
