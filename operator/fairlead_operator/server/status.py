"""Status of a server: verdicts and facts in, `status` out. Pure.

`Ready` is derived: False beats Unknown beats True. A condition's `lastTransitionTime` moves only when its status does,
so that an unchanged server has an unchanged status and costs no write.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Final

import msgspec

from fairlead_api.documents.catalog import Catalog, ChildEndpoint, Endpoint, LocalEndpoint, TcpEndpoint
from fairlead_api.documents.codec import catalog_name
from fairlead_api.meta import ANNOTATION_FORM, CLIENT_CONFIGURATION
from fairlead_api.v1alpha1.common import Condition
from fairlead_api.v1alpha1.conditions import READY_DEPENDS_ON, ConditionType, Reason, Status
from fairlead_api.v1alpha1.mcpserver import CatalogReference, LatencySummary, McpServer, McpServerStatus, ServerInfo
from fairlead_api.v1alpha1.remedies import Form, in_words_of, remedy
from fairlead_operator.ports import ConditionVerdict, Environment

_REASONS: Final = frozenset(Reason)
MESSAGE_LIMIT: Final = 2000
TEXT_LIMIT: Final = 1024

NOT_REACHED: Final = ConditionVerdict(None, Reason.PENDING, "what comes before is not done")
NOT_CALIBRATED: Final = ConditionVerdict(None, Reason.NOT_CALIBRATED, "its tools have not been measured")


@dataclass(frozen=True)
class Verdicts:
    """One per condition but Ready. None: nothing new is known, what is shown stays."""

    accepted: ConditionVerdict
    resolved: ConditionVerdict = NOT_REACHED
    programmed: ConditionVerdict = NOT_REACHED
    verified: ConditionVerdict | None = NOT_REACHED
    calibrated: ConditionVerdict | None = None
    approved: ConditionVerdict | None = None
    clean: ConditionVerdict | None = None


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


def build_status(
    server: McpServer, verdicts: Verdicts, facts: Facts, now: datetime, environment: Environment = "cluster"
) -> McpServerStatus:
    """The whole status; equal input gives equal output, whatever the time, as long as nothing changes. `environment`
    and the file that declares the server choose the words of advice.
    """
    shown, generation = server.status, server.metadata.generation
    given: dict[ConditionType, ConditionVerdict] = {
        ConditionType.ACCEPTED: verdicts.accepted,
        ConditionType.RESOLVED_REFS: verdicts.resolved,
        ConditionType.PROGRAMMED: verdicts.programmed,
        ConditionType.VERIFIED: verdicts.verified or _as_shown(shown, ConditionType.VERIFIED) or NOT_REACHED,
        ConditionType.CALIBRATED: verdicts.calibrated or _as_shown(shown, ConditionType.CALIBRATED) or NOT_CALIBRATED,
    }
    for kind, verdict in _of_definitions(server, verdicts):
        given[kind] = verdict
    given[ConditionType.READY] = ready(given)
    form: Form = environment
    if environment == "local" and server.metadata.annotations.get(ANNOTATION_FORM) == CLIENT_CONFIGURATION:
        form = CLIENT_CONFIGURATION
    conditions = [_condition(kind, verdict, shown, generation, now, form) for kind, verdict in given.items()]
    catalog = facts.catalog
    return McpServerStatus(
        conditions=conditions,
        observed_generation=generation,
        transport=server.spec.effective_transport,
        tools=_tools(catalog, shown),
        tools_offline=_tools_offline(catalog, shown),
        tools_left_out=_tools_left_out(facts, shown),
        endpoint=_address(facts.endpoint),
        protocol_version=catalog.protocol_version[:64] if catalog else None,
        server_info=_server_info(catalog),
        catalog=_reference(server, catalog),
        latency=shown.latency if facts.latency is None else facts.latency if facts.latency.slowest_tool else None,
    )


def _of_definitions(server: McpServer, verdicts: Verdicts) -> Iterator[tuple[ConditionType, ConditionVerdict]]:
    """Shown where there is something to say: from the first answer on, and `Approved` while definitions are pinned."""
    clean = verdicts.clean or _as_shown(server.status, ConditionType.DEFINITIONS_CLEAN)
    approved = verdicts.approved or _as_shown(server.status, ConditionType.APPROVED)
    if clean is not None:
        yield ConditionType.DEFINITIONS_CLEAN, clean
    if approved is not None and server.spec.pin:
        yield ConditionType.APPROVED, approved


def ready(given: dict[ConditionType, ConditionVerdict]) -> ConditionVerdict:
    """The first dependent that is False, else the first that is Unknown, else True."""
    dependents = [given[kind] for kind in READY_DEPENDS_ON]
    for wanted in (False, None):
        for verdict in dependents:
            if verdict.ok is wanted:
                return verdict
    return ConditionVerdict(True, dependents[-1].reason, dependents[-1].message)


def _as_shown(shown: McpServerStatus, kind: ConditionType) -> ConditionVerdict | None:
    condition = shown.condition(kind)
    if condition is None:
        return None
    return ConditionVerdict({"True": True, "False": False}.get(condition.status), condition.reason, condition.message)


def _condition(
    kind: ConditionType, verdict: ConditionVerdict, shown: McpServerStatus, generation: int, now: datetime, form: Form
) -> Condition:
    status: Status = "Unknown" if verdict.ok is None else "True" if verdict.ok else "False"
    before = shown.condition(kind)
    unchanged = before is not None and before.status == status
    return Condition(
        type=kind,
        status=status,
        reason=verdict.reason,
        message=_advised(verdict, form),
        observed_generation=generation,
        last_transition_time=before.last_transition_time
        if before is not None and unchanged
        else now.replace(microsecond=0),
    )


def _advised(verdict: ConditionVerdict, form: Form) -> str:
    """The message with what to do about it, which survives where a long one is cut; what is still open needs none."""
    known = verdict.reason in _REASONS and verdict.ok is not None
    advice = remedy(Reason(verdict.reason), form) if known else ""
    message = in_words_of(verdict.message, form)
    if not advice or message.endswith(advice):
        return message[:MESSAGE_LIMIT]
    said = message[: MESSAGE_LIMIT - len(advice) - 2].rstrip()
    return f"{said}{'' if said.endswith(('.', '!', '?')) else '.'} {advice}"


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
        return f"tcp://{endpoint.host}:{endpoint.port}"
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
