"""Size of a converted schema, in the quantities that strict modes limit.

Pure module, which runs at the end of a strict conversion.
"""

from __future__ import annotations

from typing import Any, Final

from fairlead_formats.schema.budget import ConversionBudget
from fairlead_mcp.schemas import DEFINITIONS, LISTS, parts

JsonObject = dict[str, Any]

MANY_VALUES: Final = 250
"""Number of values of one enum above which OpenAI also limits the total length of the values (`max_long_enum`)."""


_SAME_LEVEL: Final = LISTS | DEFINITIONS
"""Keywords whose subschemas are on the same level."""


class Counts:
    """Quantities of one schema."""

    __slots__ = ("depth", "long_enum", "optional", "properties", "text", "unions", "values")

    def __init__(self) -> None:
        self.long_enum = self.depth = self.optional = self.properties = self.text = self.unions = self.values = 0


def measure_schema(schema: JsonObject, budget: ConversionBudget) -> Counts:
    """Count a whole schema including `$defs`. Raises TooMuch."""
    counts = Counts()
    queue = [(schema, 1)]
    while queue:
        subschema, depth = queue.pop()
        budget.charge_node(depth)
        counts.depth = max(counts.depth, depth)
        properties = subschema.get("properties", {})
        counts.properties += len(properties)
        counts.optional += len(properties.keys() - set(subschema.get("required", ())))
        counts.text += sum(map(len, properties)) + sum(map(len, subschema.get("$defs", ())))
        values = subschema.get("enum", ())
        counts.values += len(values)
        text = sum(len(value) for value in values if isinstance(value, str))
        counts.text += text
        if len(values) > MANY_VALUES:
            counts.long_enum = max(counts.long_enum, text)
        counts.unions += "anyOf" in subschema or isinstance(subschema.get("type"), list)
        queue += [(part, depth + (steps[0] not in _SAME_LEVEL)) for steps, part in parts(subschema)]
    return counts
