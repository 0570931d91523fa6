"""Checks JSON Schemas by draft 2020-12, even if they name another draft, because model providers apply this draft to
all schemas of tools. No I/O.
"""

from __future__ import annotations

from typing import Final

import jsonschema_rs

_DRAFT: Final = "https://json-schema.org/draft/2020-12/schema"


def draft_error(schema: object) -> str | None:
    """The first error of a schema by draft 2020-12; None for a valid schema."""
    if not isinstance(schema, dict | bool):
        return "a schema is an object or a boolean"
    draft = {**schema, "$schema": _DRAFT} if isinstance(schema, dict) else schema
    try:
        jsonschema_rs.meta.validate(draft)
    except jsonschema_rs.ValidationError as error:
        path = "/".join(map(str, error.instance_path))
        return f"{error.message} at {path}" if path else error.message
    except (ValueError, RecursionError) as error:
        return str(error)
    return None
