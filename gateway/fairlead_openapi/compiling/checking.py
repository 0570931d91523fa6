"""Validation of operations by the meta-schemas of OpenAPI. No I/O after the import of the schemas.

A finding prevents no tool: an operation that can be read becomes a tool although it breaks a rule.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from itertools import islice
from typing import Any, Final

import jsonschema_rs
import msgspec

from fairlead_tools.validation.wording import sentence

MAX_FINDINGS: Final = 3
"""Maximum number of findings about one operation."""
_MAX_FINDING_CHARS: Final = 300
"""Maximum number of characters of a finding."""
_PARTS: Final = {"3.0": "definitions/Operation", "3.1": "$defs/operation"}
"""Path of an operation's schema in the meta-schema."""


def operation_findings(operation: dict[str, Any], *, dialect_3_0: bool) -> tuple[str, ...]:
    """Where an Operation Object breaks the meta-schema of its version. Raises nothing."""
    validator = _validator("3.0" if dialect_3_0 else "3.1")
    try:
        if validator.is_valid(operation):
            return ()
        return tuple(
            f"not valid OpenAPI: {sentence(error)}"[:_MAX_FINDING_CHARS]
            for error in islice(validator.iter_errors(operation), MAX_FINDINGS)
        )
    except ValueError:  # a value that jsonschema-rs cannot read, such as a lone surrogate
        return ("not valid OpenAPI: the operation cannot be checked",)


@cache
def _validator(version: str) -> jsonschema_rs.Validator:
    file = files("fairlead_openapi.compiling") / "meta_schemas" / f"openapi-{version}.json"
    schema: dict[str, Any] = msgspec.json.decode(file.read_bytes())
    schema.pop("id", None)
    definitions = {name: value for name, value in schema.items() if name in ("$schema", "definitions", "$defs", "$id")}
    pointer = "#/" + _PARTS[version]
    return jsonschema_rs.validator_for(
        {**definitions, "allOf": [{"$ref": pointer}]}, offline=True, validate_formats=False
    )
