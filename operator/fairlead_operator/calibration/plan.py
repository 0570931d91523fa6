"""Which tools of a server may be probed, and with what. Pure.

Nobody's tool is called unasked: only one for which the McpServer gives `probe.arguments`, and under `probe: ReadOnly`
also one that its author calls read-only, where the server's annotations are trusted.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import msgspec
from msgspec import Raw

from fairlead_api.documents.catalog import Catalog, ToolEntry
from fairlead_api.v1alpha1.mcpserver import McpServer, ProbePolicy
from fairlead_operator.calibration.minimal import Unsatisfied, minimal_arguments

LONGEST_S: Final = 60.0
"""Bound on one probe of a tool that declares none."""


@dataclass(frozen=True)
class PlannedProbe:
    """One call that is safe to make at any time."""

    tool: str
    arguments: bytes
    """Raw JSON."""
    given: bool
    """By the McpServer; otherwise made from the schema, so that an error may be the fault of the arguments."""
    timeout: float
    """Seconds; what takes longer counts as a failure."""


@dataclass(frozen=True)
class ProbePlan:
    """Everything that may be probed of one server, in the order of the names."""

    probes: tuple[PlannedProbe, ...] = ()
    refused: tuple[str, ...] = ()
    """Tools that might be probed if arguments could be made for them."""
    policy: ProbePolicy = "Declared"
    """Which tools may be probed at all."""


class _ProbeHints(msgspec.Struct, frozen=True, rename="camel"):
    read_only_hint: Any = None
    destructive_hint: Any = None


class _Execution(msgspec.Struct, frozen=True, rename="camel"):
    task_support: Any = None


class _ProbedTool(msgspec.Struct, rename="camel"):
    annotations: _ProbeHints = _ProbeHints()
    execution: _Execution = _Execution()
    input_schema: Raw = Raw(b"{}")


_decode = msgspec.json.Decoder(_ProbedTool).decode


def plan(server: McpServer, catalog: Catalog, default: ProbePolicy = "Declared") -> ProbePlan:
    """Probes that are allowed of a server whose definitions are those of `catalog`; `default` where it does not say."""
    policy = server.spec.calibration.allows(default)
    if policy == "Never":
        return ProbePlan(policy=policy)
    most = server.spec.limits.timeout.seconds
    probes, refused = [], []
    for entry in catalog.tools:
        if not entry.enabled or entry.requires:  # a probe declares no client capability
            continue
        try:
            arguments = _arguments(entry, by_annotations=policy == "ReadOnly" and catalog.trust_annotations)
        except Unsatisfied:
            refused.append(entry.name)
            continue
        if arguments is not None:
            given = entry.probe_arguments is not None
            probes.append(PlannedProbe(entry.name, msgspec.json.encode(arguments), given, _timeout(entry, most)))
    return ProbePlan(tuple(probes), tuple(refused), policy)


def _arguments(entry: ToolEntry, *, by_annotations: bool) -> dict[str, Any] | None:
    """None for a tool that may not be probed. Raises Unsatisfied."""
    if entry.probe_arguments is not None:
        return entry.probe_arguments
    if not by_annotations:
        return None
    try:
        definition = _decode(entry.definition)
    except msgspec.MsgspecError:
        return None
    annotations = definition.annotations
    if annotations.read_only_hint is not True or annotations.destructive_hint is True:
        return None
    if definition.execution.task_support == "required":
        return None
    return minimal_arguments(msgspec.json.decode(definition.input_schema))


def _timeout(entry: ToolEntry, most: float) -> float:
    declared = entry.latency.max_duration_ms if entry.latency is not None else None
    return min(LONGEST_S, most, LONGEST_S if declared is None else declared / 1000)
