"""Provides the LatencyTiers that an installation uses while none is declared: from a file, or the default tiers."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from fairlead_api.bad_setting import BadSetting
from fairlead_api.v1alpha1.latencytier import LatencyTier
from fairlead_api.yaml_files import read_yaml
from fairlead_operator.publish.default_tiers import DEFAULT_TIERS


def read_tiers(path: str) -> Collection[LatencyTier]:
    """The tiers of a YAML file with a list of mappings, each with `name` and `spec`. With an empty path, the default
    tiers. Raises BadSetting.
    """
    if not path:
        return DEFAULT_TIERS
    try:
        mappings = read_yaml(Path(path), "the list of tiers")
    except BadSetting as error:
        raise BadSetting(f"FAIRLEAD_TIERS: {error}") from error
    if not isinstance(mappings, list) or not all(isinstance(t, dict) and set(t) == {"name", "spec"} for t in mappings):
        raise BadSetting(f"FAIRLEAD_TIERS: {path} is not a list of tiers, each with `name` and `spec`")
    try:
        tiers = [LatencyTier.model_validate({"metadata": {"name": t["name"]}, "spec": t["spec"]}) for t in mappings]
    except ValidationError as error:
        problem = "; ".join(f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors()[:3])
        raise BadSetting(f"FAIRLEAD_TIERS: {path}: {problem}") from error
    for mapping, tier in zip(mappings, tiers, strict=True):
        if unknown_members := _members(mapping["spec"]) - _members(tier.spec.model_dump(by_alias=True)):
            raise BadSetting(
                f"FAIRLEAD_TIERS: {path}: {tier.metadata.name} has unknown members: "
                f"spec.{', spec.'.join(sorted(unknown_members))}"
            )
    return tiers


def _members(mapping: Mapping[str, Any]) -> set[str]:
    """Dotted paths of all members, including the members of nested mappings. Names in YAML may be numbers."""
    names = set(map(str, mapping))
    for name, value in mapping.items():
        if isinstance(value, Mapping):
            names |= {f"{name}.{inner}" for inner in _members(value)}
    return names
