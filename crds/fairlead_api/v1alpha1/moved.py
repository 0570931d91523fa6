"""Fields that earlier manifests have elsewhere: refused with a sentence that names the new place.

An API server drops unknown fields where a client does not ask for strictness, and a limit that vanishes is none. A
moved
field therefore stays in the schema of its version, with a rule that no value keeps. Pure.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from fairlead_api.v1alpha1.rules import VALIDATIONS


@dataclass(frozen=True, slots=True)
class MovedField:
    """One field that is no more."""

    name: str
    """Name in manifests."""
    type: Literal["string", "integer", "number", "boolean", "array", "object"]
    """JSON type of its values."""
    to: str
    """Field that took its place, relative to the object or to the spec, with how values change."""

    @property
    def message(self) -> str:
        """Sentence for the author of the manifest."""
        return f"{self.name} is now {self.to}; fairlead migrate FILE rewrites manifests"

    def schema(self) -> dict[str, Any]:
        """JSON Schema of the member, which refuses each value."""
        bounds: dict[str, dict[str, Any]] = {
            "string": {"maxLength": 131072},
            "array": {"maxItems": 128, "items": {"type": "string", "maxLength": 4096}},
        }
        return {
            "type": self.type,
            **bounds.get(self.type, {}),
            "description": f"Moved: {self.to}.",
            VALIDATIONS: [{"rule": "false", "message": self.message, "reason": "FieldValueForbidden"}],
        }
