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

MAX_TIMEOUT_S: Final = 60.0
"""Maximum timeout in seconds of one probe."""


@dataclass(frozen=True)
class PlannedProbe:
    """One tool call that is safe to repeat at any time."""

    tool: str
    arguments: bytes
    """Raw JSON."""
    declared: bool
    """Whether the McpServer declares the arguments. Arguments that are generated from the schema may cause errors."""
    timeout: float
    """Seconds after which the probe counts as failed."""


@dataclass(frozen=True)
class ProbePlan:
    """All probes of one server, sorted by tool name."""

    probes: tuple[PlannedProbe, ...] = ()
    tools_without_arguments: tuple[str, ...] = ()
    """Tools that are not probed because no arguments can be generated."""
    policy: ProbePolicy = "Declared"
    """The policy that applies to the server."""
    lacks_user_token: bool = False
    """Whether no tool is probed because calls need a user's token, which the operator does not have."""


class _ProbeHints(msgspec.Struct, frozen=True, rename="camel"):
    """The annotations of a tool that decide whether it may be probed without declared arguments."""

    read_only_hint: Any = None
    destructive_hint: Any = None


class _Execution(msgspec.Struct, frozen=True, rename="camel"):
    """The member `execution` of a tool's definition."""

    task_support: Any = None


class _ProbedTool(msgspec.Struct, rename="camel"):
    """The members of a tool's definition that decide whether it may be probed, and with which arguments."""

    annotations: _ProbeHints = _ProbeHints()
    execution: _Execution = _Execution()
    input_schema: Raw = Raw(b"{}")


_decode = msgspec.json.Decoder(_ProbedTool).decode


def plan(server: McpServer, catalog: Catalog, default: ProbePolicy = "Declared") -> ProbePlan:
    """The allowed probes of a server. `default` is the policy if the spec has none."""
    policy = server.spec.calibration.allows(default)
    if policy == "Never":
        return ProbePlan(policy=policy)
    if catalog.api is not None:  # probes are calls over MCP, which an HTTP API does not speak
        return ProbePlan(policy=policy)
    discovery_auth = server.spec.discovery.auth
    needs_user_token = catalog.oauth is not None and catalog.oauth.grant != CLIENT_CREDENTIALS
    if needs_user_token and (discovery_auth is None or discovery_auth.first_grant):
        return ProbePlan(policy=policy, lacks_user_token=True)
    server_timeout = server.spec.limits.timeout.seconds
    probes, tools_without_arguments = [], []
    for entry in catalog.tools:
        if not entry.enabled or entry.requires:  # a probe declares no client capability
            continue
        if entry.shape is not None and entry.shape.secrets:  # a probe has no secrets
            continue
        try:
            arguments = _arguments(entry, by_annotations=policy == "ReadOnly" and catalog.trust_annotations)
        except Unsatisfied:
            tools_without_arguments.append(entry.name)
            continue
        if arguments is not None:
            are_declared = entry.probe_arguments is not None
            if entry.shape is not None:
                arguments = {**arguments, **entry.shape.values}
            timeout = _timeout(entry, server_timeout)
            probes.append(PlannedProbe(entry.name, msgspec.json.encode(arguments), are_declared, timeout))
    return ProbePlan(tuple(probes), tuple(tools_without_arguments), policy)


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


def _timeout(entry: ToolEntry, server_timeout: float) -> float:
    """Timeout of a probe in seconds: the shortest of `MAX_TIMEOUT_S`, the server's timeout, and the tool's declared
    maximum duration.
    """
    declared_ms = entry.latency.max_duration_ms if entry.latency is not None else None
    return min(MAX_TIMEOUT_S, server_timeout, MAX_TIMEOUT_S if declared_ms is None else declared_ms / 1000)
