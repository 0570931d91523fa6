"""Finds all Secrets that a pod template refers to, which are checked before the template is applied, and the ConfigMaps
in the environment of its containers. Pure.

An optional reference to an absent Secret is removed from the template until the Secret exists. Otherwise the kubelet
would pass any Secret of that name to the pod as soon as one is created, without a check.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

Json = dict[str, Any]

_CONTAINERS: Final = ("initContainers", "containers", "ephemeralContainers")
_VOLUME_SECRETS: Final = (
    *(("csi", "nodePublishSecretRef"), ("cephfs", "secretRef"), ("flexVolume", "secretRef"), ("iscsi", "secretRef")),
    *(("rbd", "secretRef"), ("scaleIO", "secretRef"), ("storageos", "secretRef")),
)
"""Kinds of volumes whose driver receives a Secret, each with the member that names the Secret."""


@dataclass(frozen=True)
class SecretReference:
    """A reference to a Secret in the server's namespace."""

    name: str
    key: str | None = None
    """None: all keys."""
    optional: bool = False
    environment: bool = False
    """Whether the value is read into the environment when a container starts, so that a new value needs new pods."""


def secret_references(template: Mapping[str, Any]) -> list[SecretReference]:
    """All references to Secrets in a pod template, in its order."""
    spec = _object(template, "spec")
    references = [reference for container in _containers(spec) for reference in _container_references(container)]
    references += [reference for volume in _objects(spec, "volumes") for reference in _volume_references(volume)]
    return references + [_reference(each, "name") for each in _objects(spec, "imagePullSecrets")]


def containers(template: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """All containers of a pod template, including init containers."""
    yield from _containers(_object(template, "spec"))


def environment_config_maps(spec: Mapping[str, Any]) -> list[str]:
    """Names of the ConfigMaps from which the containers of an McpServer's spec read their environment, sorted."""
    names: set[str] = set()
    overlays = [_object(spec, "podTemplate"), _object(spec, "unrestrictedPodTemplate")]
    for container in (spec, *(container for overlay in overlays for container in containers(overlay))):
        for variable in _objects(container, "env"):
            names.add(_text(_object(_object(variable, "valueFrom"), "configMapKeyRef"), "name"))
        for source in _objects(container, "envFrom"):
            names.add(_text(_object(source, "configMapRef"), "name"))
    return sorted(names - {""})


def without_secrets(template: Json, absent_names: Collection[str]) -> Json:
    """The template without its optional references to absent Secrets; their volumes become empty directories."""
    if not absent_names:
        return template
    spec = dict(_object(template, "spec"))
    for kind in _CONTAINERS:
        if kind in spec:
            spec[kind] = [_container_without(container, absent_names) for container in _objects(spec, kind)]
    if "volumes" in spec:
        spec["volumes"] = [_volume_without(volume, absent_names) for volume in _objects(spec, "volumes")]
    return {**template, "spec": spec}


def _container_references(container: Mapping[str, Any]) -> Iterator[SecretReference]:
    """References of a container's environment."""
    for variable in _objects(container, "env"):
        if selector := _object(_object(variable, "valueFrom"), "secretKeyRef"):
            yield _reference(selector, "name", key=_text(selector, "key"), environment=True)
    for source in _objects(container, "envFrom"):
        if reference := _object(source, "secretRef"):
            yield _reference(reference, "name", environment=True)


def _volume_references(volume: Mapping[str, Any]) -> Iterator[SecretReference]:
    """References of a volume."""
    if secret := _object(volume, "secret"):
        yield from _key_references(secret, "secretName")
    for source in _objects(_object(volume, "projected"), "sources"):
        if secret := _object(source, "secret"):
            yield from _key_references(secret, "name")
    for kind, member in _VOLUME_SECRETS:
        if reference := _object(_object(volume, kind), member):
            yield _reference(reference, "name")
    if share := _object(volume, "azureFile"):
        yield _reference(share, "secretName")


def _key_references(secret: Mapping[str, Any], member: str) -> Iterator[SecretReference]:
    """One reference for each key that a volume selects, or one reference for all keys."""
    for item in _objects(secret, "items") or [{}]:
        yield _reference(secret, member, key=_text(item, "key") or None)


def _reference(
    source: Mapping[str, Any], member: str, *, key: str | None = None, environment: bool = False
) -> SecretReference:
    return SecretReference(_text(source, member), key, source.get("optional") is True, environment)


def _container_without(container: Json, absent_names: Collection[str]) -> Json:
    """A container without its optional references to absent Secrets."""
    result = dict(container)
    for member, reference in (("env", "secretKeyRef"), ("envFrom", "secretRef")):
        if member in result:
            result[member] = [
                source
                for source in _objects(result, member)
                if not _is_absent(_object(_object(source, "valueFrom") or source, reference), "name", absent_names)
            ]
    return result


def _volume_without(volume: Json, absent_names: Collection[str]) -> Json:
    """A volume without its optional references to absent Secrets."""
    if _is_absent(_object(volume, "secret"), "secretName", absent_names):
        return {**{name: value for name, value in volume.items() if name != "secret"}, "emptyDir": {}}
    projected = _object(volume, "projected")
    if not projected:
        return volume
    sources = _objects(projected, "sources")
    remaining = [source for source in sources if not _is_absent(_object(source, "secret"), "name", absent_names)]
    return {**volume, "projected": {**projected, "sources": remaining}}


def _is_absent(source: Mapping[str, Any], member: str, absent_names: Collection[str]) -> bool:
    return source.get("optional") is True and _text(source, member) in absent_names


# The template may have any shape; the API server refuses invalid ones.


def _object(source: Mapping[str, Any], member: str) -> Mapping[str, Any]:
    value = source.get(member)
    return value if isinstance(value, Mapping) else {}


def _objects(source: Mapping[str, Any], member: str) -> list[Json]:
    value = source.get(member)
    return [dict(each) for each in value if isinstance(each, Mapping)] if isinstance(value, list) else []


def _text(source: Mapping[str, Any], member: str) -> str:
    value = source.get(member)
    return value if isinstance(value, str) else ""


def _containers(spec: Mapping[str, Any]) -> Iterator[Json]:
    for kind in _CONTAINERS:
        yield from _objects(spec, kind)
