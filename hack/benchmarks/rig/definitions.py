"""Generates tool definitions of the size of public MCP tools: about 100 tokens each."""

from __future__ import annotations

import random
from typing import Any

WORDS = (  # noqa: SIM905 - a list of these would fill a screen
    "file path of the user query search limit page number and date list create update delete repository issue city "
    "returns a JSON object with results optional filter order by name maximum timeout seconds branch commit"
).split()


def definition(index: int, rng: random.Random) -> dict[str, Any]:
    """A tool with a handful of parameters."""

    def prose(least: int, most: int) -> str:
        return " ".join(rng.choices(WORDS, k=rng.randint(least, most))).capitalize() + "."

    names = [f"{rng.choice(WORDS)}_{number}" for number in range(rng.randint(1, 5))]
    properties = {name: {"type": rng.choice(("string", "integer")), "description": prose(3, 12)} for name in names}
    schema = {"type": "object", "properties": properties, "required": names[:1]}
    return {"name": f"tool_{index}", "description": prose(8, 40), "inputSchema": schema}
