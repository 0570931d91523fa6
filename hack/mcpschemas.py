"""Reduces the JSON Schema of an MCP revision to what lists hold, for `fairlead_tools.definitions.published`.

python hack/mcpschemas.py SCHEMA REVISION

SCHEMA is `schema.json` of that revision (https://github.com/modelcontextprotocol/modelcontextprotocol, below schema/).
Kept are the definitions of LISTED, and all that they refer to, as they are, without their descriptions.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

LISTED: Final = ("Prompt", "Resource", "ResourceTemplate", "Tool")
FOLDER: Final = Path(__file__).resolve().parents[1] / "gateway" / "fairlead_tools" / "definitions" / "published"
_REFERENCE: Final = "#/$defs/"


def reduced(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema with the definitions of LISTED alone, and those that they refer to."""
    definitions, todo = schema["$defs"], [*LISTED]
    needed: dict[str, Any] = {}
    while todo:
        name = todo.pop()
        if name not in needed:
            needed[name] = _without_descriptions(definitions[name])
            todo += _references(needed[name])
    return {"$schema": schema["$schema"], "$defs": dict(sorted(needed.items()))}


def _without_descriptions(value: Any) -> Any:
    """Keywords go; a property that is called `description` has a schema for its value, and stays."""
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
    source, revision = sys.argv[1:]
    text = json.dumps(reduced(json.loads(Path(source).read_text())), indent=1)
    (FOLDER / f"{revision}.json").write_text(text + "\n")


if __name__ == "__main__":
    main()
