"""Fields that moved since earlier releases: manifests with the old name are rejected, with a message that has the new
name.

An API server silently drops unknown fields unless a client asks for strict validation, and a dropped limit would be no
limit. A moved field therefore stays in the schema, with a rule that no value meets. This module has no I/O.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from fairlead_api.v1alpha1.rules import VALIDATIONS


@dataclass(frozen=True, slots=True)
class MovedField:
    """One field that has moved."""

    name: str
    """Old name in manifests."""
    type: Literal["string", "integer", "number", "boolean", "array", "object"]
    """JSON type of its values."""
    to: str
    """New name, relative to the object or to the spec, and how values change."""

    @property
    def message(self) -> str:
        """Sentence for the author of the manifest."""
        return f"{self.name} is now {self.to}; fairlead migrate FILE rewrites manifests"

    def schema(self) -> dict[str, Any]:
        """JSON Schema of the old member, which rejects every value."""
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
