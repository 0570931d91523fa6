"""REST resource `GET /v1/access`: whether a subject may call a tool, and which policy rule decides.

The decision is the same as for lists and calls. All principals may request decisions about themselves. About a denied
tool they get the answer that a call would get: the tool is unknown, unless policies state reasons. Decisions about
other subjects, and all details, are only for members of an administrators' group (`FAIRLEAD_ADMIN_GROUPS`), or for
everybody if authentication is off.
"""

from __future__ import annotations

from typing import Annotated, Any, Final

import msgspec
from fastapi import APIRouter, Query, Request, Response

from fairlead_api.documents.servers import ON_THE_WAY
from fairlead_api.meta import ServerKey
from fairlead_api.policies.subjects import API_KEYS, SERVICE_ACCOUNTS
from fairlead_formats.names import suggest_name
from fairlead_gateway.calls.path.startup import refusal_of
from fairlead_gateway.core.identity import Identity, ServiceAccount
from fairlead_gateway.identity.names import Issuers
from fairlead_gateway.policy.hidden_tools_notice import refusal_message
from fairlead_offers.catalogs.call_identity import credential_for
from fairlead_offers.catalogs.subject_catalog import SubjectCatalog
from fairlead_offers.problems import FORBIDDEN, INVALID_ARGUMENTS, Problem, unknown_tool, unready_problem
from fairlead_rest.context import RestContext
from fairlead_rest.known_servers import server_state
from fairlead_rest.openapi import describe_route
from fairlead_tools.names import tool_id

EXAMPLE: Final[dict[str, Any]] = {
    "an agent that a policy denies a tool": {
        "agent": "npc",
        "tool": "tavern__web-search",
        "server": "default/tavern",
        "serverState": "ready",
        "serverCause": None,
        "allowed": False,
        "reason": "rule 0 of policy default/no-web denies the tool",
        "policy": "default/no-web",
        "rule": 0,
        "ruleName": None,
        "bounded": False,
        "listed": False,
        "pinned": False,
        "credential": None,
        "hidden": None,
        "tier": "fast",
        "maxTier": None,
        "limits": {},
        "policies": ["default/all", "default/no-web"],
    }
}


class AccessDocument(msgspec.Struct, frozen=True, rename="camel"):
    """Decision about one subject and tool."""

    agent: str | None
    """Name of the agent that the decision is about; null for a caller without a credential."""
    tool: str
    """Exposed name of the tool on `/mcp`; the server's name for the tool if `/mcp` does not have it."""
    server: str
    """Server of the tool, as `namespace/name`."""
    server_state: str
    """State of the server, as in `/v1/servers`. If it is not `ready`, even an allowed call fails."""
    server_cause: str | None
    """Observed cause in one word if the server is not ready; else null. The page of reasons explains the causes."""
    allowed: bool
    """Whether policies and limits allow a call, with the arguments in the query if there are any."""
    reason: str
    policy: str | None
    """Policy that decided, by a rule or, if `rule` is null, by its `limits`."""
    rule: int | None
    """Index of the deciding rule in the policy, from 0; null if no rule decided."""
    rule_name: str | None
    """Name of the deciding rule; null if it has no name."""
    bounded: bool
    """Whether only certain arguments are allowed."""
    listed: bool
    """Whether `/mcp` lists the tool."""
    pinned: bool
    credential: str | None
    """Under whose credential a call of this subject goes to the server; null if the server gets none."""
    hidden: str | None
    """Reason why an allowed tool is not listed: its tier, or a limit; else null."""
    tier: str | None
    """Tier of requests that name no tier; null if there is no default tier, or if servers have different defaults."""
    max_tier: str | None
    """Slowest tier that the subject may use at this server; null if it may use any tier."""
    limits: dict[str, int]
    """Limits of the subject in the server's namespace, by their names in a ToolPolicy."""
    policies: tuple[str, ...]
    """Policies that apply to the subject at this server: those that select it, and those that set the limits of its
    namespace. Empty unless the caller is an administrator."""


class _AccessQuery(msgspec.Struct, frozen=True):
    tool: str
    arguments: str | None
    admin: bool
    """Whether the caller is an administrator, who may see all details."""
    exchange_allowed: tuple[str, ...]
    """Authorization servers that callers' tokens may be sent to."""
    now: float
    """Time of the gateway's clock."""


def router(context: RestContext) -> APIRouter:
    """Make the route of `/v1/access`."""
    services = context.services
    routes = APIRouter(prefix="/v1", tags=["tools"])

    @routes.get("/access", **describe_route("Show who may call a tool, and why", AccessDocument, EXAMPLE))
    async def show_access(
        request: Request,
        tool: Annotated[str, Query(description="Name of the tool on `/mcp`, `[namespace/]server/tool`, or id.")],
        agent: Annotated[str | None, Query(description="Agent other than the caller; for administrators.")] = None,
        groups: Annotated[list[str] | None, Query(description="Groups of the other agent.")] = None,
        service_account: Annotated[
            str | None, Query(alias="serviceAccount", description="ServiceAccount as `namespace/name`.")
        ] = None,
        claims: Annotated[
            list[str] | None, Query(description="Claims of the other agent's token, as `NAME=VALUE`.")
        ] = None,
        issuer: Annotated[
            str | None, Query(description="Issuer of the other agent's identity: a name, or `apiKeys`.")
        ] = None,
        arguments: Annotated[str | None, Query(description="Arguments of a call, as JSON.")] = None,
    ) -> Response:
        catalog = context.catalog(request)
        admin = context.administers(catalog.identity)
        if agent is not None or groups or service_account is not None or claims or issuer is not None:
            if not admin and agent != catalog.identity.agent:
                hint = context.administration.setting_hint
                raise Problem(FORBIDDEN, f"decisions about other agents are shown only to administrators; {hint}")
            if admin:
                other_identity = _parse_identity(agent, groups or [], service_account, claims or [])
                catalog = services.catalogs.seen_by(
                    _with_issuer(other_identity, issuer, context.administration.issuers)
                )
        exchange_allowed = context.administration.exchange_allowed
        access_query = _AccessQuery(tool, arguments, admin, exchange_allowed, context.clock())
        return await context.answer(lambda: access(catalog, access_query))

    return routes


def _parse_identity(agent: str | None, groups: list[str], account: str | None, claims: list[str]) -> Identity:
    """Make the identity that the query describes. Raises Problem."""
    service_account = None
    if account is not None:
        namespace, slash, name = account.partition("/")
        if not (namespace and slash and name):
            raise Problem(INVALID_ARGUMENTS, f"serviceAccount: {account[:128]!r} is not of the form namespace/name")
        service_account = ServiceAccount(namespace, name)
    group_names = frozenset(word.strip() for group in groups for word in group.split(",") if word.strip())
    kind: Any = "serviceAccount" if service_account is not None else "jwt" if claims else "apiKey"
    return Identity(
        kind=kind,
        principal=f"asked:{agent or account}",
        agent=agent,
        groups=group_names,
        service_account=service_account,
        claims=_parse_claims(claims),
    )


def _with_issuer(identity: Identity, issuer: str | None, issuers: Issuers) -> Identity:
    """Add an issuer to an identity: the issuer in the query, or else the only issuer that may issue the identity's
    names. Raises Problem.
    """
    if issuer is None and identity.service_account is not None:
        return msgspec.structs.replace(identity, issuers=(SERVICE_ACCOUNTS,))
    if issuer is None:
        names, doubtful = issuers.issuer_of_unqualified(identity.agent, identity.groups)
        return msgspec.structs.replace(identity, issuers=names, doubtful=doubtful)
    issuer_names = issuers.names_of_issuer(issuer) if issuers.prefixes else (issuer,)
    if issuer_names is None:
        raise Problem(INVALID_ARGUMENTS, f"issuer: {issuer[:128]!r} must be one of {', '.join(issuers.prefixes[:-1])}")
    if issuer in (API_KEYS, SERVICE_ACCOUNTS):
        return msgspec.structs.replace(identity, issuers=issuer_names)
    return msgspec.structs.replace(
        identity, issuers=issuer_names, doubtful=issuers.ambiguous_names_of_token(identity.agent, identity.groups)
    )


def _parse_claims(values: list[str]) -> dict[str, list[str]]:
    claims: dict[str, list[str]] = {}
    for claim in values:
        name, equals, value = claim.partition("=")
        if not (name and equals and value):
            raise Problem(INVALID_ARGUMENTS, f"claims: {claim[:128]!r} is not of the form NAME=VALUE")
        claims.setdefault(name, []).append(value)
    return claims


def access(catalog: SubjectCatalog, query: _AccessQuery) -> AccessDocument:
    """Decide about one tool. Raises Problem if the tool is unknown, or must be treated as unknown."""
    view, names = catalog.view(None), _find_tool(catalog, query.tool)
    if names is None:
        entry = catalog.unready_of_tool(query.tool)
        if entry is not None:
            raise unready_problem(refusal_of(entry, starts=entry.state in ON_THE_WAY))
        raise unknown_tool(query.tool, view.find_renamed(query.tool) or suggest_name(query.tool, view.routes))
    key, server_name, exposed = names
    decision = catalog.decision(key, server_name)
    if not (decision.allowed or query.admin or decision.discloses_reason):
        raise unknown_tool(query.tool, view.find_renamed(query.tool) or suggest_name(query.tool, view.routes))
    server_view = catalog.server_view(key)
    route = server_view.everything.get(server_name) if server_view is not None else None
    hidden_tool = view.hidden.get(exposed or "") or (
        server_view.hidden.get(server_name) if server_view is not None else None
    )
    is_allowed, reason, constraint = decision.allowed, decision.reason, route.constraint if route is not None else None
    if query.arguments is not None and constraint is not None:
        refusal = constraint.refusal(query.arguments.encode())
        if refusal is not None:
            is_allowed, reason = False, refusal.message
    quota = decision.quota
    policy, rule, rule_name = decision.policy, decision.rule, decision.rule_name
    policy_without_calls = quota.policy_without_calls if quota is not None and is_allowed else None
    if policy_without_calls is not None:
        is_allowed, reason = False, f"limits.callsPerMinute of {policy_without_calls} is 0, so all calls are refused"
        policy, rule, rule_name = policy_without_calls, None, None
    is_listed = (exposed or "") in view.routes
    if is_allowed and not is_listed and hidden_tool is not None and hidden_tool.is_refused(query.now):
        is_allowed, reason = False, refusal_message(exposed or server_name, hidden_tool, view.base)
        policy, rule, rule_name = hidden_tool.policy, None, None
        if server_view is not None and server_name in server_view.routes:
            reason += f"; the endpoint of its server lists it, at {server_view.base.decode()}"
    server = catalog.snapshot.servers.get(key)
    state, cause = server_state(server, catalog.snapshot.entries.get(key))
    return AccessDocument(
        agent=catalog.identity.agent,
        tool=exposed or server_name,
        server=str(key),
        server_state=state,
        server_cause=cause or None,
        allowed=is_allowed,
        reason=reason,
        policy=policy,
        rule=rule,
        rule_name=rule_name,
        bounded=constraint is not None,
        listed=is_listed,
        pinned=(exposed or "") in view.pinned,
        credential=None if server is None else credential_for(server.catalog, catalog.identity, query.exchange_allowed),
        hidden=hidden_tool.reason if hidden_tool is not None else None,
        tier=catalog.default_tier,
        max_tier=decision.max_tier,
        limits={} if quota is None else quota.numbers,
        policies=decision.policies if query.admin else (),
    )


def _find_tool(catalog: SubjectCatalog, name: str) -> tuple[ServerKey, str, str | None] | None:
    """Find a tool by name. Returns its server, the server's name for the tool, and its exposed name. The name on `/mcp`
    is looked up first, as the other names of 10,000 tools take 20 ms to compute.
    """
    exposed = catalog.snapshot.merged.get(name)
    return _tools(catalog).get(name) if exposed is None else (exposed[0].key, exposed[1].name, name)


def _tools(catalog: SubjectCatalog) -> dict[str, tuple[ServerKey, str, str | None]]:
    """All tools by each of their names. Names that two tools share are left out."""
    tools: dict[str, tuple[ServerKey, str, str | None]] = {}
    ambiguous_names: set[str] = set()
    merged = catalog.snapshot.merged
    for key, server in catalog.snapshot.servers.items():
        for tool in server.tools:
            exposed = (
                tool.exposed_name if tool.exposed_name is not None and merged[tool.exposed_name][0] is server else None
            )
            names = key, tool.name, exposed
            for name in (tool_id(key, tool.shown_name), f"{key.name}/{tool.shown_name}"):
                if name in tools:
                    ambiguous_names.add(name)
                tools[name] = names
            tools[f"{key}/{tool.shown_name}"] = names
            if exposed is not None:
                tools[exposed] = names
    return {name: names for name, names in tools.items() if name not in ambiguous_names}
