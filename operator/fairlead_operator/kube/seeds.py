"""The LatencyTiers that operators created by themselves, told from those that somebody declared or edited. Pure.

Operators up to 0.1 created `fast` with `default: true`. Who created an object, and who has written its spec since, is
in its `managedFields` (Kubernetes API conventions, "Field management"); `metadata.generation` grows with each change of
the spec.
"""

from __future__ import annotations

from typing import Final

from fairlead_api.meta import MANAGER
from fairlead_kube.client import Json

SEEDER: Final = "fairlead-operator-seeds"
"""Field manager of the tiers that this operator creates. Those of older operators have MANAGER, so that a default which
this one creates, because the installation names it, is never withdrawn."""


def old_default(item: Json) -> bool:
    """Whether an older operator created this LatencyTier as the default, and nobody has written its spec since."""
    metadata, spec = item.get("metadata") or {}, item.get("spec") or {}
    if spec.get("default") is not True or metadata.get("generation") != 1:
        return False
    writers = [
        entry
        for entry in metadata.get("managedFields") or ()
        if not entry.get("subresource") and "f:spec" in (entry.get("fieldsV1") or {})
    ]
    return bool(writers) and all(
        entry.get("manager") == MANAGER and entry.get("operation") == "Update" for entry in writers
    )
