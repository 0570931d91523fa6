"""Status of a server: verdicts and facts in, `status` out. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Final

import msgspec

from fairlead_api.documents.catalog import Catalog, ChildEndpoint, Endpoint, LocalEndpoint, TcpEndpoint
from fairlead_api.documents.codec import catalog_name
from fairlead_api.documents.pins import GivenApproval
from fairlead_api.meta import ANNOTATION_FORM, CLIENT_CONFIGURATION
from fairlead_api.remedies import Form
from fairlead_api.v1alpha1.causes import Cause
from fairlead_api.v1alpha1.condition_types import ConditionType
from fairlead_api.v1alpha1.mcpserver import (
    ApprovalRecord,
    CatalogReference,
    LatencySummary,
    McpServer,
    McpServerStatus,
    ServerInfo,
)
from fairlead_mcp.addresses import authority
from fairlead_mcp.capabilities import extensions
from fairlead_operator.condition_assembly import AdviceWords, as_shown, conditions
from fairlead_operator.ports import ConditionVerdict, Environment, PodCount

TEXT_LIMIT: Final = 1024
MAX_EXTENSIONS: Final = 32
MAX_EXTENSION: Final = 128
"""Characters of the identifier of an extension."""

NOT_REACHED: Final = ConditionVerdict(None, Cause.PENDING, "what comes before is not done")
NOT_CALIBRATED: Final = ConditionVerdict(None, Cause.NOT_CALIBRATED, "its tools have not been measured")


@dataclass(frozen=True)
class Verdicts:
    """One per condition but Ready. None: nothing new is known, what is shown stays; of the last two, it is absent."""

    accepted: ConditionVerdict
    resolved: ConditionVerdict = NOT_REACHED
    programmed: ConditionVerdict = NOT_REACHED
    verified: ConditionVerdict | None = NOT_REACHED
    calibrated: ConditionVerdict | None = None
    approved: ConditionVerdict | None = None
    clean: ConditionVerdict | None = None
    partially_invalid: ConditionVerdict | None = None
    """None: no part of the spec is without effect."""
    conflicted: ConditionVerdict | None = None
    """None: no other resource says otherwise."""
    network: ConditionVerdict | None = None
    """None: no pods are run, or nobody looks whether their NetworkPolicies are enforced."""
    disputed: ConditionVerdict | None = None
    """None: nobody undoes what is written for the server. Shown with `conflicted`."""


@dataclass(frozen=True)
class Facts:
    """Facts about a server beside its conditions."""

    endpoint: Endpoint | None = None
    catalog: Catalog | None = None
    """As published; None = none is."""
    tools_left_out: int | None = None
    """Tools left out of the last answer; None = nothing new is known."""
    latency: LatencySummary | None = None
    """Latency of the slowest tool; None = nothing new is known, one without a tool = nothing is measured."""
    pods: PodCount | None = None
    """Its pods; None = none are run."""
    approvals: tuple[GivenApproval, ...] = ()
    """Approvals of pinned definitions; none = nothing new is known."""


def build_status(
    server: McpServer, verdicts: Verdicts, facts: Facts, now: datetime, environment: Environment = "cluster"
) -> McpServerStatus:
    """The whole status; equal input gives equal output, whatever the time, as long as nothing changes. `environment`
    and the file that declares the server choose the words of advice.
    """
    shown, generation = server.status, server.metadata.generation
    given: dict[ConditionType, ConditionVerdict | None] = {
        ConditionType.ACCEPTED: verdicts.accepted,
        ConditionType.PARTIALLY_INVALID: verdicts.partially_invalid,
        ConditionType.CONFLICTED: _both(verdicts.disputed, verdicts.conflicted),
        ConditionType.RESOLVED_REFS: verdicts.resolved,
        ConditionType.PROGRAMMED: verdicts.programmed,
        ConditionType.VERIFIED: verdicts.verified or as_shown(shown.condition(ConditionType.VERIFIED)) or NOT_REACHED,
        ConditionType.CALIBRATED: verdicts.calibrated
        or as_shown(shown.condition(ConditionType.CALIBRATED))
        or NOT_CALIBRATED,
    }
    for kind, verdict in _of_definitions(server, verdicts):
        given[kind] = verdict
    given[ConditionType.NETWORK_POLICY_ENFORCED] = verdicts.network
    form: Form = environment
    if environment == "local" and server.metadata.annotations.get(ANNOTATION_FORM) == CLIENT_CONFIGURATION:
        form = CLIENT_CONFIGURATION
    catalog = facts.catalog
    words = AdviceWords(form, server.spec.effective_transport, str(server.key))
    return McpServerStatus(
        conditions=conditions(given, shown.conditions, generation, now, words),
        observed_generation=generation,
        replicas=None if facts.pods is None else facts.pods.replicas,
        selector=None if facts.pods is None else facts.pods.selector,
        transport=server.spec.effective_transport,
        tools=_tools(catalog, shown),
        tools_offline=_tools_offline(catalog, shown),
        tools_left_out=_tools_left_out(facts, shown),
        endpoint=_address(facts.endpoint),
        protocol_version=catalog.protocol_version[:64] if catalog else None,
        server_info=_server_info(catalog),
        extensions=_extensions(catalog),
        catalog=_reference(server, catalog),
        approvals=_approvals(facts, shown) if server.spec.pin else None,
        latency=shown.latency if facts.latency is None else facts.latency if facts.latency.slowest_tool else None,
    )


def _both(first: ConditionVerdict | None, second: ConditionVerdict | None) -> ConditionVerdict | None:
    """One verdict out of two that say the same about a condition, under the cause of the first."""
    if first is None or second is None:
        return first or second
    return ConditionVerdict(first.ok, first.cause, f"{first.message}. {second.cause}: {second.message}")


def _approvals(facts: Facts, shown: McpServerStatus) -> list[ApprovalRecord] | None:
    if not facts.approvals:
        return shown.approvals
    return [
        ApprovalRecord(
            hash=approval.hash, at=datetime.fromisoformat(approval.at), by=approval.by, definitions=approval.definitions
        )
        for approval in facts.approvals
    ]


def _extensions(catalog: Catalog | None) -> list[str] | None:
    """Identifiers of bounded number and length: a server may declare anything."""
    declared = extensions(catalog.capabilities) if catalog is not None else frozenset()
    return sorted(name for name in declared if len(name) <= MAX_EXTENSION)[:MAX_EXTENSIONS] or None


def _of_definitions(server: McpServer, verdicts: Verdicts) -> Iterator[tuple[ConditionType, ConditionVerdict]]:
    """Shown where there is something to say: from the first answer on, and `Approved` while definitions are pinned."""
    clean = verdicts.clean or as_shown(server.status.condition(ConditionType.DEFINITIONS_CLEAN))
    approved = verdicts.approved or as_shown(server.status.condition(ConditionType.APPROVED))
    if clean is not None:
        yield ConditionType.DEFINITIONS_CLEAN, clean
    if approved is not None and server.spec.pin:
        yield ConditionType.APPROVED, approved


def _tools(catalog: Catalog | None, shown: McpServerStatus) -> int | None:
    """Absent until a catalog was published, 0 after it was withdrawn."""
    if catalog is None:
        return None if shown.tools is None else 0
    return sum(1 for tool in catalog.tools if tool.enabled)


def _tools_offline(catalog: Catalog | None, shown: McpServerStatus) -> int | None:
    return 0 if catalog is not None and catalog.online else _tools(catalog, shown)


def _tools_left_out(facts: Facts, shown: McpServerStatus) -> int | None:
    """Shown only where there are any."""
    if facts.catalog is None:
        return None
    return shown.tools_left_out if facts.tools_left_out is None else facts.tools_left_out or None


def _address(endpoint: Endpoint | None) -> str | None:
    if endpoint is None or isinstance(endpoint, LocalEndpoint):
        return None
    if isinstance(endpoint, ChildEndpoint):
        return " ".join([endpoint.command, *endpoint.args])[:TEXT_LIMIT]
    if isinstance(endpoint, TcpEndpoint):
        return f"tcp://{authority(endpoint.host, endpoint.port)}"
    address, query, _ = endpoint.url.partition("?")  # a query may hold what is not for everybody who may look
    return address[:2047] + query


def _server_info(catalog: Catalog | None) -> ServerInfo | None:
    """Whatever a server says of itself, as far as it is text."""
    if catalog is None:
        return None
    try:
        members = msgspec.json.decode(catalog.server_info, type=dict[str, object])
    except msgspec.MsgspecError:
        return None
    texts = {name: value[:TEXT_LIMIT] for name, value in members.items() if isinstance(value, str)}
    if not texts.get("name"):
        return None
    return ServerInfo(name=texts["name"], title=texts.get("title"), version=texts.get("version", ""))


def _reference(server: McpServer, catalog: Catalog | None) -> CatalogReference | None:
    if catalog is None:
        return None
    updated = datetime.fromisoformat(catalog.updated_at)
    return CatalogReference(name=catalog_name(server.key), hash=catalog.hash, updated_at=updated)
