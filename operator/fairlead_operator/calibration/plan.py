"""Decides which tools of a server may be probed, and with which arguments. Pure.

A tool is probed if the McpServer has `probe.arguments` for it. Under `probe: ReadOnly`, tools with `readOnlyHint` are
probed too, if the server's annotations are trusted.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import msgspec
from msgspec import Raw

from fairlead_api.documents.catalog import Catalog, ToolEntry
from fairlead_api.documents.oauth import CLIENT_CREDENTIALS
from fairlead_api.v1alpha1.mcpserver import McpServer, ProbePolicy
from fairlead_operator.calibration.minimal import Unsatisfied, minimal_arguments

LONGEST_S: Final = 60.0
"""Maximum timeout in seconds of one probe."""


@dataclass(frozen=True)
class PlannedProbe:
    """One tool call that is safe to repeat at any time."""

    tool: str
    arguments: bytes
    """Raw JSON."""
    declared: bool
    """Whether the arguments are from the McpServer. If they are generated from the schema, they may cause errors."""
    timeout: float
    """Seconds after which the probe counts as failed."""


@dataclass(frozen=True)
class ProbePlan:
    """All probes of one server, sorted by tool name."""

    probes: tuple[PlannedProbe, ...] = ()
    refused: tuple[str, ...] = ()
    """Tools that are not probed because no arguments can be generated."""
    policy: ProbePolicy = "Declared"
    """The policy that applies to the server."""
    has_no_person: bool = False
    """Whether no tool is probed because calls need a user's token, and the operator has no credential instead."""


class _ProbeHints(msgspec.Struct, frozen=True, rename="camel"):
    """The annotations of a tool that decide whether it may be probed without declared arguments."""

    read_only_hint: Any = None
    destructive_hint: Any = None


class _Execution(msgspec.Struct, frozen=True, rename="camel"):
    """The member `execution` of a tool's definition."""

    task_support: Any = None


class _ProbedTool(msgspec.Struct, rename="camel"):
    """The members of a tool's definition that decide whether, and with which arguments, it may be probed."""

    annotations: _ProbeHints = _ProbeHints()
    execution: _Execution = _Execution()
    input_schema: Raw = Raw(b"{}")


_decode = msgspec.json.Decoder(_ProbedTool).decode


def plan(server: McpServer, catalog: Catalog, default: ProbePolicy = "Declared") -> ProbePlan:
    """The allowed probes of a server with this catalog; `default` is the policy if the spec has none."""
    policy = server.spec.calibration.allows(default)
    if policy == "Never":
        return ProbePlan(policy=policy)
    if catalog.api is not None:  # probes speak MCP
        return ProbePlan(policy=policy)
    listing = server.spec.discovery.auth
    of_person = catalog.oauth is not None and catalog.oauth.grant != CLIENT_CREDENTIALS
    if of_person and (listing is None or listing.first_grant):
        return ProbePlan(policy=policy, has_no_person=True)
    most = server.spec.limits.timeout.seconds
    probes, refused = [], []
    for entry in catalog.tools:
        if not entry.enabled or entry.requires:  # a probe declares no client capability
            continue
        if entry.shape is not None and entry.shape.secrets:  # a probe has no secrets
            continue
        try:
            arguments = _arguments(entry, by_annotations=policy == "ReadOnly" and catalog.trust_annotations)
        except Unsatisfied:
            refused.append(entry.name)
            continue
        if arguments is not None:
            declared = entry.probe_arguments is not None
            if entry.shape is not None:
                arguments = {**arguments, **entry.shape.values}
            probes.append(PlannedProbe(entry.name, msgspec.json.encode(arguments), declared, _timeout(entry, most)))
    return ProbePlan(tuple(probes), tuple(refused), policy)


def _arguments(entry: ToolEntry, *, by_annotations: bool) -> dict[str, Any] | None:
    """Arguments for a tool; None if it may not be probed. Raises Unsatisfied."""
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
    """Timeout of a probe in seconds: `LONGEST_S`, the server's timeout `most` or the tool's declared maximum duration,
    whichever is shortest.
    """
    declared = entry.latency.max_duration_ms if entry.latency is not None else None
    return min(LONGEST_S, most, LONGEST_S if declared is None else declared / 1000)
