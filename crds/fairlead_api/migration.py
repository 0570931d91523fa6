"""Migration of manifests from earlier releases: moves fields to their current names, and converts their values.

Documents are changed in place, and may be any type of mutable mapping, so that a round-trip YAML parser keeps their
comments and order. Documents of other kinds, and manifests of the current release, are not changed. This module has no
I/O.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, MutableMapping, MutableSequence
from typing import Any, Final

from pydantic import ValidationError

from fairlead_api.meta import GROUP
from fairlead_api.problems import complaints
from fairlead_api.v1alpha1.mcpserver.podtemplate import PodTemplateOverlay

Members = MutableMapping[str, Any]
_OF_IMAGES: Final = ("command", "args", "transport", "port", "path", "hostHeader")
_OF_URLS: Final = ("transport", "hostHeader", "caBundle")
_MS_PER_UNIT: Final = (("h", 3_600_000), ("m", 60_000), ("s", 1000))


def migrate(document: object) -> list[str]:
    """Migrate one parsed document in place. Returns the changes as `old → new` paths; empty if the document needs no
    change."""
    if not isinstance(document, MutableMapping):
        return []
    if isinstance(document.get("mcpServers"), MutableMapping):
        return list(_configurations(document["mcpServers"]))
    if str(document.get("apiVersion", "")).partition("/")[0] != GROUP:
        return []
    rewrite = _KINDS.get(str(document.get("kind")))
    spec = document.get("spec")
    return list(rewrite(spec, "spec")) if rewrite is not None and isinstance(spec, MutableMapping) else []


def _configurations(servers: Members) -> Iterator[str]:
    """Migrate a client configuration, whose entries have Fairlead's fields under `fairlead`. Yields the changes."""
    for name, entry in servers.items():
        own = entry.get("fairlead") if isinstance(entry, MutableMapping) else None
        if isinstance(own, MutableMapping):
            yield from _behaviour(own, f"mcpServers.{name}.fairlead")


def _server(spec: Members, at: str) -> Iterator[str]:
    yield from _source(spec, at)
    yield from _pod_template(spec, at)
    yield from _behaviour(spec, at)


def _source(spec: Members, at: str) -> Iterator[str]:
    """Move members that apply to only one source into that source."""
    image = spec.get("image")
    if isinstance(image, str):
        index = list(spec).index("image")
        named: Members = type(spec)()
        _move(spec, "image", named, "name", image)
        _put(spec, "image", named, index)
        yield f"{at}.image → {at}.image.name"
    kind = "image" if "image" in spec else "remote"
    source = spec.get(kind, type(spec)())
    moved_names = _OF_IMAGES if kind == "image" else _OF_URLS if "url" in spec else ()
    for name in moved_names:
        if name in spec and isinstance(source, MutableMapping):
            _move(spec, name, source, name, spec[name])
            yield f"{at}.{name} → {at}.{kind}.{name}"
    if kind == "remote" and source and "remote" not in spec:
        _put(spec, "remote", source, list(spec).index("url") + 1)
    yield from _of_a_process(spec, at)


def _pod_template(spec: Members, at: str) -> Iterator[str]:
    """Rename `podTemplate` to `unrestrictedPodTemplate` if it has fields that `podTemplate` does not allow."""
    template = spec.get("podTemplate")
    if not isinstance(template, MutableMapping):
        return
    pod = template.get("spec")
    if isinstance(pod, MutableMapping) and "runtimeClassName" in pod:
        _move(pod, "runtimeClassName", spec, "runtimeClassName", pod["runtimeClassName"])
        yield f"{at}.podTemplate.spec.runtimeClassName → {at}.runtimeClassName"
    try:
        PodTemplateOverlay.model_validate_json(json.dumps(template), strict=True, extra="forbid", by_name=False)
    except ValidationError as error:
        field = complaints(error, PodTemplateOverlay)[0].field
        yield from _rename(spec, at, "podTemplate", "unrestrictedPodTemplate", lambda value: value)
        yield f"{at}.podTemplate.{field} is the first field that podTemplate does not allow"
    except (TypeError, ValueError):  # not JSON, so the value never came from an API server
        return


def _of_a_process(spec: Members, at: str) -> Iterator[str]:
    """Append `args` to a local command, and drop `transport: stdio`, which local commands and packages always use."""
    if "image" in spec or "url" in spec:
        return
    command, arguments = spec.get("command"), spec.get("args")
    if isinstance(command, MutableSequence) and isinstance(arguments, MutableSequence):
        command.extend(arguments)
        del spec["args"]
        yield f"{at}.args → {at}.command"
    if spec.get("transport") == "stdio":
        del spec["transport"]
        yield f"{at}.transport: stdio is dropped, because it is the only transport of this source"


def _behaviour(spec: Members, at: str) -> Iterator[str]:
    """Changes of the members that manifests and client configurations have in common."""
    for limits in _objects(spec.get("limits")):
        yield from _rename(limits, f"{at}.limits", "callsPerSecond", "callsPerMinute", _per_minute)
    for calibration in _objects(spec.get("calibration")):
        if calibration.get("enabled") is True:
            del calibration["enabled"]
            yield f"{at}.calibration.enabled: true is dropped, because it is the default"
        elif "enabled" in calibration:
            calibration.pop("probe", None)
            yield from _rename(calibration, f"{at}.calibration", "enabled", "probe", lambda _: "Never")
    for index, tool in enumerate(_objects(spec.get("tools"))):
        for latency in _objects(tool.get("latency")):
            path = f"{at}.tools[{index}].latency"
            yield from _rename(latency, path, "estimatedDurationMs", "estimated", _duration)
            yield from _rename(latency, path, "maxDurationMs", "max", _duration)
            yield from _rename(latency, path, "cacheableSeconds", "cacheable", lambda s: _duration(_times(s, 1000)))


def _tier(spec: Members, at: str) -> Iterator[str]:
    yield from _rename(spec, at, "hysteresis", "hysteresisPercent", lambda ratio: _round(_times(ratio, 100)))


def _objects(value: object) -> Iterator[Members]:
    """The object itself, or the objects in a list."""
    if isinstance(value, MutableMapping):
        yield value
    elif isinstance(value, MutableSequence):
        yield from (item for item in value if isinstance(item, MutableMapping))


def _rename(
    members: Members, at: str, old: str, new: str, convert: Callable[[Any], Any] = lambda value: value
) -> Iterator[str]:
    """Rename a member in place and convert its value. If the new name exists too, the old member is dropped."""
    if old not in members:
        return
    index, value = list(members).index(old), convert(members[old])
    _move(members, old, members, new, value, index)
    yield f"{at}.{old} → {at}.{new}"


def _put(members: Members, name: str, value: Any, index: int) -> None:
    """Insert a member at an index."""
    insert = getattr(members, "insert", None)
    if insert is not None:
        insert(index, name, value)
        return
    after = list(members)[index:]
    members[name] = value
    for key in after:  # a plain dict keeps the order of insertion
        members[key] = members.pop(key)


def _move(source: Members, old: str, target: Members, new: str, value: Any, index: int | None = None) -> None:
    """Move a member from `source` to `target`, with its comment."""
    comment = _comments(source).pop(old, None)
    del source[old]
    if new in target:
        return
    _put(target, new, value, len(target) if index is None else index)
    if comment is not None:
        _comments(target)[new] = comment


def _comments(members: Members) -> dict[Any, Any]:
    """Comments by key, as ruamel.yaml attaches them to its mappings."""
    comments = getattr(members, "ca", None)
    return {} if comments is None else comments.items


def _times(value: Any, factor: int) -> Any:
    return value * factor if isinstance(value, int | float) and not isinstance(value, bool) else value


def _round(value: Any) -> Any:
    return round(value) if isinstance(value, int | float) and not isinstance(value, bool) else value


def _per_minute(rate: Any) -> Any:
    """Calls per second converted to calls per minute, at least 1."""
    calls = _round(_times(rate, 60))
    return max(1, calls) if isinstance(calls, int) else calls


def _duration(milliseconds: Any) -> Any:
    """Milliseconds converted to a duration in the largest unit that divides them."""
    rounded = _round(milliseconds)
    if not isinstance(rounded, int) or isinstance(rounded, bool):
        return milliseconds
    for unit, length in _MS_PER_UNIT:
        if rounded and rounded % length == 0:
            return f"{rounded // length}{unit}"
    return f"{rounded}ms" if rounded else "0s"


_KINDS: Final[dict[str, Callable[[Members, str], Iterator[str]]]] = {"McpServer": _server, "LatencyTier": _tier}
