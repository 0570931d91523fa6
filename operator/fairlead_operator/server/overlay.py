"""Kubernetes' strategic merge, as far as pod templates need it: `spec.podTemplate` laid over the generated one. Pure.

Objects merge member by member, null removes a member. Lists of objects with a merge key merge item by item, an item
with `$patch: delete` is removed; every other list replaces the one below.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

MERGE_KEYS: Final[Mapping[str, str]] = {
    "containers": "name",
    "initContainers": "name",
    "ephemeralContainers": "name",
    "volumes": "name",
    "env": "name",
    "imagePullSecrets": "name",
    "volumeMounts": "mountPath",
    "volumeDevices": "devicePath",
    "ports": "containerPort",
    "hostAliases": "ip",
    "topologySpreadConstraints": "topologyKey",
    "resourceClaims": "name",
}
DIRECTIVE: Final = "$patch"


def merged(base: Any, overlay: Any, *, member: str = "") -> Any:
    """`overlay` laid over `base`; neither is changed. `member` is the name under which they stand."""
    if isinstance(base, Mapping) and isinstance(overlay, Mapping):
        return _merged_objects(base, overlay)
    if isinstance(base, list) and isinstance(overlay, list) and (key := MERGE_KEYS.get(member)):
        return _merged_lists(base, overlay, key)
    return overlay


def _merged_objects(base: Mapping[str, Any], overlay: Mapping[str, Any]) -> dict[str, Any]:
    if overlay.get(DIRECTIVE) == "replace":
        return {name: value for name, value in overlay.items() if name != DIRECTIVE}
    result = dict(base)
    for name, value in overlay.items():
        if value is None:
            result.pop(name, None)
        elif name in result:
            result[name] = merged(result[name], value, member=name)
        else:
            result[name] = value
    return result


def _merged_lists(base: list[Any], overlay: list[Any], key: str) -> list[Any]:
    result = list(base)
    for item in overlay:
        identity = item.get(key) if isinstance(item, Mapping) else None
        place = next(
            (i for i, known in enumerate(result) if isinstance(known, Mapping) and known.get(key) == identity), None
        )
        if isinstance(item, Mapping) and item.get(DIRECTIVE) == "delete":
            if place is not None:
                del result[place]
        elif place is None or identity is None:
            result.append(item)
        else:
            result[place] = merged(result[place], item)
    return result
