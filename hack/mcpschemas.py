"""Reduces the JSON Schema of an MCP revision: to what lists hold, for `fairlead_tools.definitions.published`, or to
what servers ask of people, for tests.

python hack/mcpschemas.py SCHEMA REVISION [--asked]

SCHEMA is `schema.json` of that revision (https://github.com/modelcontextprotocol/modelcontextprotocol, below schema/).
Kept are the definitions of LISTED, or ASKED, that the revision has, and all that they refer to, as they are, without
their descriptions.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

LISTED: Final = ("Prompt", "Resource", "ResourceTemplate", "Tool")
ASKED: Final = (
    "CallToolResult",
    "ElicitRequest",
    "ElicitationCompleteNotification",
    "InputRequiredResult",
    "JSONRPCError",
    "JSONRPCErrorResponse",
    "ServerNotification",
    "ServerRequest",
    "URLElicitationRequiredError",
)
ROOT: Final = Path(__file__).resolve().parents[1]
FOLDER: Final = ROOT / "gateway" / "fairlead_tools" / "definitions" / "published"
FOLDER_ASKED: Final = ROOT / "tests" / "golden" / "asked"
_REFERENCE: Final = "#/$defs/"
_OLD_REFERENCE: Final = "#/definitions/"
"""Revisions before 2025-11-25 use draft-07, whose validators accept both keywords."""


def reduced(schema: dict[str, Any], names: tuple[str, ...] = LISTED) -> dict[str, Any]:
    """The schema with only the definitions of these names and those that they refer to."""
    if "definitions" in schema:
        schema = json.loads(json.dumps(schema).replace(_OLD_REFERENCE, _REFERENCE))
        schema["$defs"] = schema.pop("definitions")
    definitions = schema["$defs"]
    todo = [name for name in names if name in definitions]
    needed: dict[str, Any] = {}
    while todo:
        name = todo.pop()
        if name not in needed:
            needed[name] = _without_descriptions(definitions[name])
            todo += _references(needed[name])
    return {"$schema": schema["$schema"], "$defs": dict(sorted(needed.items()))}


def _without_descriptions(value: Any) -> Any:
    """Remove the keyword `description`. A property with this name has a schema as its value, and stays."""
    if isinstance(value, dict):
        return {
            name: _without_descriptions(member)
            for name, member in value.items()
            if name != "description" or not isinstance(member, str)
        }
    return [_without_descriptions(item) for item in value] if isinstance(value, list) else value


def _references(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for name, member in value.items():
            if name == "$ref" and isinstance(member, str):
                yield member.removeprefix(_REFERENCE)
            else:
                yield from _references(member)
    elif isinstance(value, list):
        for item in value:
            yield from _references(item)


def main() -> None:
    """Write the reduced schema of the revision."""
    source, revision, *options = sys.argv[1:]
    schema = json.loads(Path(source).read_text())
    if options == ["--asked"]:
        (FOLDER_ASKED / f"{revision}.json").write_text(json.dumps(reduced(schema, ASKED)) + "\n")
    else:
        (FOLDER / f"{revision}.json").write_text(json.dumps(reduced(schema), indent=1) + "\n")


if __name__ == "__main__":
    main()
