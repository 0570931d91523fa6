"""False findings of `openapi-core` about requests, each with the rule that it does not implement completely.

| limit | reason |
|---|---|
| `EMPTY` | it rejects an empty value of a query parameter, even if the schema accepts an empty string |
| `NULLABLE` | it ignores `nullable` beside `enum`, `oneOf` or `allOf`, and in OpenAPI 3.1, though authors mean null |
| `DEFAULT` | it gives an absent property the default null, and then rejects null because of the type |
| `READ_ONLY` | it treats a parameter whose schema is that of a `readOnly` property like this property |
| `DISCRIMINATOR` | it reads any value of a discriminator's property as the name of a schema |
| `UNCAST` | in forms and queries it casts only texts in `properties`, and only by the first branch of `anyOf` |
| `UNLISTED` | it reads only the `properties` of a form, and reports other required members as missing |
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

from openapi_core.deserializing.styles.exceptions import EmptyQueryParameterValue

EMPTY: Final = "empty value in a query"
NULLABLE: Final = "nullable without a type of its own"
DEFAULT: Final = "default that is null"
READ_ONLY: Final = "parameter whose schema is read-only"
DISCRIMINATOR: Final = "discriminator"
UNCAST: Final = "text that is not cast"
UNLISTED: Final = "member of a form beside its properties"


def limit_of(error: Exception, *, pairs: bool) -> str:
    """The limit of `openapi-core` that explains an error of a request; empty if none does. `pairs` says whether the
    value was in a query, a path, a header or a form.
    """
    step: BaseException | None = error
    while step is not None:
        if isinstance(step, EmptyQueryParameterValue):
            return EMPTY
        if schema_errors := getattr(step, "schema_errors", ()):
            limits = [_limit(each, pairs=pairs) for each in schema_errors]
            return limits[0] if all(limits) else ""
        step = step.__cause__ or step.__context__
    return ""


def _limit(error: Any, *, pairs: bool) -> str:
    """The limit that explains an error of `jsonschema`; empty if none does."""
    schema: dict[str, Any] = error.schema if isinstance(error.schema, dict) else {}
    if error.instance is None and (schema.get("nullable") is True or "allOf" in error.relative_schema_path):
        return NULLABLE
    if error.validator == "readOnly" and pairs:
        return READ_ONLY
    if "could not be resolved" in error.message and any("discriminator" in each for each in _schemas(schema)):
        return DISCRIMINATOR
    if error.instance is None and schema.get("default", "") is None:
        return DEFAULT
    of_text = pairs and isinstance(error.instance, str)
    if of_text and error.validator in ("type", "anyOf", "oneOf", "enum") and _is_scalar(error.instance):
        return UNCAST
    if pairs and error.validator == "required" and isinstance(error.instance, dict):
        missing = set(schema["required"]) - error.instance.keys()
        return "" if missing & schema.get("properties", {}).keys() else UNLISTED
    below = [_limit(each, pairs=pairs) for each in error.context or ()]
    return next(filter(None, below), "")


def _is_scalar(text: str) -> bool:
    """Whether a text is a JSON number or boolean."""
    try:
        return not isinstance(json.loads(text), str | dict | list)
    except ValueError:
        return False


def _schemas(schema: Any) -> Iterator[dict[str, Any]]:
    """A schema and its subschemas, without following references."""
    if isinstance(schema, dict):
        yield schema
        for below in schema.values():
            yield from _schemas(below)
    for below in schema if isinstance(schema, list) else ():
        yield from _schemas(below)
