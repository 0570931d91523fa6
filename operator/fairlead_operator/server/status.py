"""Builds the status of an McpServer from verdicts and facts. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from types import MappingProxyType
from typing import Final

import msgspec

from fairlead_api.documents.catalog import Catalog, ChildEndpoint, Endpoint, LocalEndpoint, TcpEndpoint
from fairlead_api.documents.codec import catalog_name
from fairlead_api.documents.pins import GivenApproval
from fairlead_api.meta import ANNOTATION_FORM, CLIENT_CONFIGURATION, LITELLM
from fairlead_api.remedies import Form
from fairlead_api.v1alpha1.causes import Cause
from fairlead_api.v1alpha1.condition_types import ConditionType
from fairlead_api.v1alpha1.mcpserver import (
    ApiStatus,
    ApprovalRecord,
    CatalogReference,
    LatencySummary,
    McpServer,
    McpServerStatus,
    OperationStatus,
    ServerInfo,
)
from fairlead_mcp.addresses import authority
from fairlead_mcp.capabilities import extensions
from fairlead_operator.condition_assembly import AdviceContext, conditions, verdict_of
from fairlead_operator.ports import ConditionVerdict, Environment, PodCount

_ANNOTATED_FORMS: Final[Mapping[str, Form]] = MappingProxyType(
    {CLIENT_CONFIGURATION: CLIENT_CONFIGURATION, LITELLM: LITELLM}
)
TEXT_LIMIT: Final = 1024
"""Maximum characters of a text that a server wrote."""
MAX_EXTENSIONS: Final = 32
MAX_OPERATIONS: Final = 20
MAX_EXTENSION_CHARS: Final = 128
"""Maximum characters of the identifier of an extension."""

NOT_REACHED: Final = ConditionVerdict(None, Cause.PENDING, "an earlier step of the reconcile has not succeeded")
NOT_CALIBRATED: Final = ConditionVerdict(None, Cause.NOT_CALIBRATED, "the server's tools have not been measured")


@dataclass(frozen=True)
class Verdicts:
    """One verdict per condition except Ready.

    If `verified`, `calibrated`, `approved` or `clean` is None, the previous condition is kept. If another verdict is
    None, its condition is absent.
    """

    accepted: ConditionVerdict
    resolved: ConditionVerdict = NOT_REACHED
    programmed: ConditionVerdict = NOT_REACHED
    verified: ConditionVerdict | None = NOT_REACHED
    calibrated: ConditionVerdict | None = None
    approved: ConditionVerdict | None = None
    clean: ConditionVerdict | None = None
    partially_invalid: ConditionVerdict | None = None
    """None: each part of the spec has an effect."""
    conflicted: ConditionVerdict | None = None
    """None: no other resource contradicts this one."""
    network_enforcement: ConditionVerdict | None = None
    """None: the server has no pods, or the enforcement of NetworkPolicies is not probed."""
    undone_writes: ConditionVerdict | None = None
    """None: nobody undoes the operator's writes. Shown in the condition Conflicted."""
    authorized: ConditionVerdict | None = None
    """None: calls of the server need no grants."""


@dataclass(frozen=True)
class Facts:
    """Facts about a server that its status shows in addition to its conditions."""

    endpoint: Endpoint | None = None
    catalog: Catalog | None = None
    """The published catalog; None if no catalog is published."""
    tools_left_out: int | None = None
    """Number of tools left out of the last listing; None keeps the previous number."""
    latency: LatencySummary | None = None
    """Latency of the slowest tool; None keeps the previous latency, a summary without a tool removes it."""
    pod_count: PodCount | None = None
    """The server's pods; None without pods."""
    approvals: tuple[GivenApproval, ...] = ()
    """Approvals of pinned definitions; empty keeps the previous approvals."""


def build_status(
    server: McpServer, verdicts: Verdicts, facts: Facts, now: datetime, environment: Environment = "cluster"
) -> McpServerStatus:
    """The whole status. `now` is used only for conditions that change, so that equal verdicts and facts cause no write.

    `environment` and the kind of file that declares the server select the wording of advice.
    """
    previous, generation = server.status, server.metadata.generation
    verdicts_by_type: dict[ConditionType, ConditionVerdict | None] = {
        ConditionType.ACCEPTED: verdicts.accepted,
        ConditionType.PARTIALLY_INVALID: verdicts.partially_invalid,
        ConditionType.CONFLICTED: combine(verdicts.undone_writes, verdicts.conflicted),
        ConditionType.RESOLVED_REFS: verdicts.resolved,
        ConditionType.PROGRAMMED: verdicts.programmed,
        ConditionType.AUTHORIZED: verdicts.authorized,
        ConditionType.VERIFIED: verdicts.verified
        or verdict_of(previous.condition(ConditionType.VERIFIED))
        or NOT_REACHED,
        ConditionType.CALIBRATED: verdicts.calibrated
        or verdict_of(previous.condition(ConditionType.CALIBRATED))
        or NOT_CALIBRATED,
    }
    for kind, verdict in _definition_conditions(server, verdicts):
        verdicts_by_type[kind] = verdict
    verdicts_by_type[ConditionType.NETWORK_POLICY_ENFORCED] = verdicts.network_enforcement
    form: Form = environment
    if environment == "local":
        form = _ANNOTATED_FORMS.get(server.metadata.annotations.get(ANNOTATION_FORM, ""), form)
    catalog = facts.catalog
    context = AdviceContext(form, server.spec.effective_transport, str(server.key))
    return McpServerStatus(
        conditions=conditions(verdicts_by_type, previous.conditions, generation, now, context),
        observed_generation=generation,
        replicas=None if facts.pod_count is None else facts.pod_count.replicas,
        selector=None if facts.pod_count is None else facts.pod_count.selector,
        transport=server.spec.effective_transport,
        tools=_tools(catalog, previous),
        tools_offline=_tools_offline(catalog, previous),
        tools_left_out=_tools_left_out(facts, previous),
        endpoint=_address(facts.endpoint),
        protocol_version=catalog.protocol_version[:64] if catalog else None,
        server_info=_server_info(catalog),
        extensions=_extensions(catalog),
        openapi=_api_status(catalog),
        catalog=_catalog_reference(server, catalog),
        approvals=_approvals(facts, previous) if server.spec.pin else None,
        latency=previous.latency if facts.latency is None else facts.latency if facts.latency.slowest_tool else None,
    )


def combine(first: ConditionVerdict | None, second: ConditionVerdict | None) -> ConditionVerdict | None:
    """Combine two verdicts about one condition, with the cause of the first."""
    if first is None or second is None:
        return first or second
    return ConditionVerdict(first.ok, first.cause, f"{first.message}. {second.cause}: {second.message}")


def _approvals(facts: Facts, previous_status: McpServerStatus) -> list[ApprovalRecord] | None:
    """The approvals for the status; without new ones, those of the previous status."""
    if not facts.approvals:
        return previous_status.approvals
    return [
        ApprovalRecord(
            hash=approval.hash, at=datetime.fromisoformat(approval.at), by=approval.by, definitions=approval.definitions
        )
        for approval in facts.approvals
    ]


def _extensions(catalog: Catalog | None) -> list[str] | None:
    """Identifiers of the extensions that a server declares; their number and lengths are limited, because a server may
    declare anything.
    """
    identifiers = extensions(catalog.capabilities) if catalog is not None else frozenset()
    return sorted(name for name in identifiers if len(name) <= MAX_EXTENSION_CHARS)[:MAX_EXTENSIONS] or None


def _definition_conditions(server: McpServer, verdicts: Verdicts) -> Iterator[tuple[ConditionType, ConditionVerdict]]:
    """Conditions about definitions. They exist from the first listing on, `Approved` only while definitions are
    pinned.
    """
    clean_verdict = verdicts.clean or verdict_of(server.status.condition(ConditionType.DEFINITIONS_CLEAN))
    approved_verdict = verdicts.approved or verdict_of(server.status.condition(ConditionType.APPROVED))
    if clean_verdict is not None:
        yield ConditionType.DEFINITIONS_CLEAN, clean_verdict
    if approved_verdict is not None and server.spec.pin:
        yield ConditionType.APPROVED, approved_verdict


def _tools(catalog: Catalog | None, previous_status: McpServerStatus) -> int | None:
    """Number of enabled tools: absent until a catalog was published, 0 after it was withdrawn."""
    if catalog is None:
        return None if previous_status.tools is None else 0
    return 0 if catalog.sign_in else sum(1 for tool in catalog.tools if tool.enabled)


def _tools_offline(catalog: Catalog | None, previous_status: McpServerStatus) -> int | None:
    """Number of enabled tools that are listed while their server is offline; 0 while it is online."""
    return 0 if catalog is not None and catalog.online else _tools(catalog, previous_status)


def _tools_left_out(facts: Facts, previous_status: McpServerStatus) -> int | None:
    """Number of tools left out; absent instead of 0."""
    if facts.catalog is None:
        return None
    return previous_status.tools_left_out if facts.tools_left_out is None else facts.tools_left_out or None


def _address(endpoint: Endpoint | None) -> str | None:
    """The server's URL, its TCP address or its command, for display."""
    if endpoint is None or isinstance(endpoint, LocalEndpoint):
        return None
    if isinstance(endpoint, ChildEndpoint):
        return " ".join([endpoint.command, *endpoint.args])[:TEXT_LIMIT]
    if isinstance(endpoint, TcpEndpoint):
        return f"tcp://{authority(endpoint.host, endpoint.port)}"
    # Without the query, which may contain secrets: more users may read a status than a spec.
    address, question_mark, _ = endpoint.url.partition("?")
    return address[:2047] + question_mark


def _server_info(catalog: Catalog | None) -> ServerInfo | None:
    """The server's `serverInfo`, as far as its members are strings; None without a name."""
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


def _api_status(catalog: Catalog | None) -> ApiStatus | None:
    """Report about the OpenAPI document from which the catalog was made; its texts and their number are limited."""
    if catalog is None or catalog.api is None:
        return None
    api = catalog.api
    remarks = [
        OperationStatus(operation=remark.operation[:TEXT_LIMIT], tool=remark.tool[:256] or None, why=remark.why)
        for remark in api.remarks[:MAX_OPERATIONS]
    ]
    return ApiStatus(
        digest=api.digest, operations=api.operations, with_loss=api.with_loss, left_out=api.left_out, remarks=remarks
    )


def _catalog_reference(server: McpServer, catalog: Catalog | None) -> CatalogReference | None:
    if catalog is None:
        return None
    updated = datetime.fromisoformat(catalog.updated_at)
    return CatalogReference(name=catalog_name(server.key), hash=catalog.hash, updated_at=updated)
