"""Strategic merge of Kubernetes for pod templates: lays `spec.podTemplate` over the generated template. Pure.

Objects merge member by member; null removes a member. Lists of objects with a merge key merge item by item; an item
with `$patch: delete` is removed. Any other list of the overlay replaces the list of the base. Some objects are unions,
which may have only one of several members, as a volume has one source: the member in the overlay replaces the member in
the base, as `retainKeys` does for volumes in Kubernetes' own merge.
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
_TIMINGS: Final = frozenset(
    {
        "initialDelaySeconds",
        "timeoutSeconds",
        "periodSeconds",
        "successThreshold",
        "failureThreshold",
        "terminationGracePeriodSeconds",
    }
)
"""Members of a probe besides its action, such as `httpGet`."""
_NAME: Final = frozenset({"name"})
_NO_KEYS: Final[frozenset[str]] = frozenset()
UNIONS: Final[Mapping[str, frozenset[str]]] = {
    "livenessProbe": _TIMINGS,
    "readinessProbe": _TIMINGS,
    "startupProbe": _TIMINGS,
    "postStart": _NO_KEYS,
    "preStop": _NO_KEYS,
    "volumes": _NAME,
    "env": _NAME,
    "valueFrom": _NO_KEYS,
    "resourceClaims": _NAME,
    "seccompProfile": _NO_KEYS,
    "appArmorProfile": _NO_KEYS,
}
"""Members whose value, or whose list items, are unions. The set contains the members that such a union may have besides
its one alternative. The alternatives are not listed, because later versions of Kubernetes add some, such as `grpc` and
`sleep`.
"""


def merge(base: Any, overlay: Any, *, member: str = "") -> Any:
    """Lay `overlay` over `base` and return the result; neither is changed. `member` is the name of the member that has
    these two values; it selects the merge key.
    """
    if isinstance(base, Mapping) and isinstance(overlay, Mapping):
        return _merge_objects(_without_alternatives(base, overlay, member), overlay)
    if isinstance(base, list) and isinstance(overlay, list) and (key := MERGE_KEYS.get(member)):
        return _merge_lists(base, overlay, key, member)
    return overlay


def _without_alternatives(base: Mapping[str, Any], overlay: Mapping[str, Any], member: str) -> Mapping[str, Any]:
    """`base` without the alternative of a union that `overlay` replaces by another alternative."""
    common_members = UNIONS.get(member)
    if common_members is None or all(name in common_members or value is None for name, value in overlay.items()):
        return base
    return {name: value for name, value in base.items() if name in common_members or name in overlay}


def _merge_objects(base: Mapping[str, Any], overlay: Mapping[str, Any]) -> dict[str, Any]:
    """Merge two objects member by member."""
    if overlay.get(DIRECTIVE) == "replace":
        return {name: value for name, value in overlay.items() if name != DIRECTIVE}
    result = dict(base)
    for name, value in overlay.items():
        if value is None:
            result.pop(name, None)
        elif name in result:
            result[name] = merge(result[name], value, member=name)
        else:
            result[name] = value
    return result


def _merge_lists(base: list[Any], overlay: list[Any], key: str, member: str) -> list[Any]:
    """Merge two lists item by item; items are identified by the member `key`."""
    result = list(base)
    for item in overlay:
        identity = item.get(key) if isinstance(item, Mapping) else None
        index = next(
            (i for i, existing in enumerate(result) if isinstance(existing, Mapping) and existing.get(key) == identity),
            None,
        )
        if isinstance(item, Mapping) and item.get(DIRECTIVE) == "delete":
            if index is not None:
                del result[index]
        elif index is None or identity is None:
            result.append(item)
        else:
            result[index] = merge(result[index], item, member=member)
    return result
