"""`GET /v1/access`: whether a subject may call a tool, and the deciding rule: by the same decision as lists and calls.

Everybody may ask about oneself, and hears of a tool that is kept from one what a call would hear: nothing, unless the
policies want reasons told. About others, and about everything, those may ask who are in an administrators' group
(`FAIRLEAD_ADMIN_GROUPS`); without authentication, all.
"""

from __future__ import annotations

from typing import Annotated, Any, Final

import msgspec
from fastapi import APIRouter, Query, Request, Response

from fairlead_api.documents.servers import ON_THE_WAY
from fairlead_api.meta import ServerKey
from fairlead_api.policies.subjects import API_KEYS, SERVICE_ACCOUNTS
from fairlead_formats.names import did_you_mean
from fairlead_gateway.calls.path.startup import refusal_of
from fairlead_gateway.core.identity import Identity, ServiceAccount
from fairlead_gateway.identity.names import Issuers
from fairlead_offers.catalogs.subject_catalog import SubjectCatalog
from fairlead_offers.problems import FORBIDDEN, INVALID_ARGUMENTS, Problem, unknown_tool, unready_problem
from fairlead_rest.context import RestContext
from fairlead_rest.known_servers import server_state
from fairlead_rest.log_access import ADMINISTRATORS
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
        "reason": "rule 0 of default/no-web denies it",
        "policy": "default/no-web",
        "rule": 0,
        "ruleName": None,
        "bounded": False,
        "listed": False,
        "pinned": False,
        "hidden": None,
        "tier": "fast",
        "maxTier": None,
        "limits": {},
        "policies": ["default/all", "default/no-web"],
    }
}


class AccessDocument(msgspec.Struct, frozen=True, rename="camel"):
    """One decision."""

    agent: str | None
    """Whom it is about; null for who shows no credential."""
    tool: str
    """Its name on `/mcp`, else the server's own."""
    server: str
    """`namespace/name`."""
    server_state: str
    """`ready`; else a call that is allowed fails all the same: `offline` and so on, as in `/v1/servers`."""
    server_cause: str | None
    """Observation in one word, where it is not ready; the page of reasons explains each."""
    allowed: bool
    """Whether a call is made, with the given arguments where some are given."""
    reason: str
    policy: str | None
    """Policy that decided: by a rule of it, or by its `limits` where `rule` is null."""
    rule: int | None
    """Place of the rule in that policy, from 0; null where no rule decided."""
    rule_name: str | None
    """Name of the rule; null where it has none."""
    bounded: bool
    """Whether some arguments only are allowed."""
    listed: bool
    """Whether `/mcp` lists it."""
    pinned: bool
    hidden: str | None
    """Why it is not listed although it is allowed: its tier, or a limit."""
    tier: str | None
    """The one of who names none; null where there is none, or one per server."""
    max_tier: str | None
    """The slowest that may be asked for at this server; null: any."""
    limits: dict[str, int]
    """Limits of the subject in the server's namespace, by name as in a ToolPolicy."""
    policies: tuple[str, ...]
    """All policies of the subject."""


class _AccessQuery(msgspec.Struct, frozen=True):
    tool: str
    arguments: str | None
    admin: bool
    """Whether everything may be told."""


def router(context: RestContext) -> APIRouter:
    """The resource `/v1/access`."""
    services = context.services
    routes = APIRouter(prefix="/v1", tags=["tools"])

    @routes.get("/access", **describe_route("Say who may call a tool, and why", AccessDocument, EXAMPLE))
    async def show_access(
        request: Request,
        tool: Annotated[str, Query(description="By its name on `/mcp`, `[namespace/]server/tool`, or id.")],
        agent: Annotated[str | None, Query(description="Another than oneself; for administrators.")] = None,
        groups: Annotated[list[str] | None, Query(description="The other's groups.")] = None,
        service_account: Annotated[str | None, Query(alias="serviceAccount", description="`namespace/name`.")] = None,
        claims: Annotated[list[str] | None, Query(description="Of the other's token: `NAME=VALUE`.")] = None,
        issuer: Annotated[str | None, Query(description="Issuer of the identity: its name, or `apiKeys`.")] = None,
        arguments: Annotated[str | None, Query(description="Of a call, as JSON.")] = None,
    ) -> Response:
        seen = context.seen(request)
        admin = context.administers(seen.identity)
        if agent is not None or groups or service_account is not None or claims or issuer is not None:
            if not admin and agent != seen.identity.agent:
                raise Problem(FORBIDDEN, f"who may do what is told to {ADMINISTRATORS}")
            if admin:
                other = _other(agent, groups or [], service_account, claims or [])
                seen = services.catalogs.seen_by(_with_issuer(other, issuer, context.administration.issuers))
        access_query = _AccessQuery(tool, arguments, admin)
        return await context.answer(lambda: access(seen, access_query))

    return routes


def _other(agent: str | None, groups: list[str], account: str | None, claims: list[str]) -> Identity:
    """Identity that the query describes. Raises Problem."""
    other = None
    if account is not None:
        namespace, slash, name = account.partition("/")
        if not (namespace and slash and name):
            raise Problem(INVALID_ARGUMENTS, f"serviceAccount: {account[:128]!r} is not of the form namespace/name")
        other = ServiceAccount(namespace, name)
    words = frozenset(word.strip() for group in groups for word in group.split(",") if word.strip())
    kind: Any = "serviceAccount" if other is not None else "jwt" if claims else "apiKey"
    return Identity(
        kind=kind,
        principal=f"asked:{agent or account}",
        agent=agent,
        groups=words,
        service_account=other,
        claims=_claims(claims),
    )


def _with_issuer(other: Identity, issuer: str | None, issuers: Issuers) -> Identity:
    """The identity with names from one issuer, or from the only one that may give them. Raises Problem."""
    if issuer is None and other.service_account is not None:
        return msgspec.structs.replace(other, issuers=(SERVICE_ACCOUNTS,))
    if issuer is None:
        names, doubtful = issuers.unnamed(other.agent, other.groups)
        return msgspec.structs.replace(other, issuers=names, doubtful=doubtful)
    named = issuers.called(issuer) if issuers.prefixes else (issuer,)
    if named is None:
        raise Problem(INVALID_ARGUMENTS, f"issuer: {issuer[:128]!r} is none of {', '.join(issuers.prefixes[:-1])}")
    if issuer in (API_KEYS, SERVICE_ACCOUNTS):
        return msgspec.structs.replace(other, issuers=named)
    return msgspec.structs.replace(other, issuers=named, doubtful=issuers.of_token(other.agent, other.groups))


def _claims(given: list[str]) -> dict[str, list[str]]:
    claims: dict[str, list[str]] = {}
    for claim in given:
        name, equals, value = claim.partition("=")
        if not (name and equals and value):
            raise Problem(INVALID_ARGUMENTS, f"claims: {claim[:128]!r} is not of the form NAME=VALUE")
        claims.setdefault(name, []).append(value)
    return claims


def access(seen: SubjectCatalog, query: _AccessQuery) -> AccessDocument:
    """The decision about one tool. Raises Problem for one that there is not, or that may not be spoken of."""
    view, tool_found = seen.view(None), _tool(seen, query.tool)
    if tool_found is None:
        entry = seen.unready_of_tool(query.tool)
        if entry is not None:
            raise unready_problem(refusal_of(entry, starts=entry.state in ON_THE_WAY))
        raise unknown_tool(query.tool, did_you_mean(query.tool, view.routes))
    key, own, exposed = tool_found
    decision = seen.decision(key, own)
    if not (decision.allowed or query.admin or decision.told):
        raise unknown_tool(query.tool, did_you_mean(query.tool, view.routes))
    own_view = seen.of_server(key)
    route = own_view.everything.get(own) if own_view is not None else None
    hidden = view.hidden.get(exposed or "") or (own_view.hidden.get(own) if own_view is not None else None)
    allowed, reason, constraint = decision.allowed, decision.reason, route.constraint if route is not None else None
    if query.arguments is not None and constraint is not None:
        refusal = constraint.refusal(query.arguments.encode())
        if refusal is not None:
            allowed, reason = False, refusal.message
    quota = decision.quota
    policy, rule, rule_name = decision.policy, decision.rule, decision.rule_name
    no_calls_by = quota.no_calls_by if quota is not None and allowed else None
    if no_calls_by is not None:
        allowed, reason = False, f"limits.callsPerMinute of {no_calls_by} is 0, so no call passes"
        policy, rule, rule_name = no_calls_by, None, None
    state, cause = server_state(seen.snapshot.servers.get(key), seen.snapshot.entries.get(key))
    return AccessDocument(
        agent=seen.identity.agent,
        tool=exposed or own,
        server=str(key),
        server_state=state,
        server_cause=cause or None,
        allowed=allowed,
        reason=reason,
        policy=policy,
        rule=rule,
        rule_name=rule_name,
        bounded=constraint is not None,
        listed=(exposed or "") in view.routes,
        pinned=(exposed or "") in view.pinned,
        hidden=hidden.reason if hidden is not None else None,
        tier=seen.default_tier,
        max_tier=decision.max_tier,
        limits={} if quota is None else quota.numbers,
        policies=decision.policies if query.admin else (),
    )


def _tool(seen: SubjectCatalog, name: str) -> tuple[ServerKey, str, str | None] | None:
    """The tool of that name. All names of 10,000 tools take 20 ms, so that the one on `/mcp` is looked for first."""
    exposed = seen.snapshot.merged.get(name)
    return _tools(seen).get(name) if exposed is None else (exposed[0].key, exposed[1].name, name)


def _tools(seen: SubjectCatalog) -> dict[str, tuple[ServerKey, str, str | None]]:
    """Every tool there is, by all its names; what two go by names neither."""
    tools: dict[str, tuple[ServerKey, str, str | None]] = {}
    twice: set[str] = set()
    merged = seen.snapshot.merged
    for key, server in seen.snapshot.servers.items():
        for tool in server.tools:
            shown = tool.exposed if tool.exposed is not None and merged[tool.exposed][0] is server else None
            held = key, tool.name, shown
            for name in (tool_id(key, tool.name), f"{key.name}/{tool.name}"):
                if name in tools:
                    twice.add(name)
                tools[name] = held
            tools[f"{key}/{tool.name}"] = held
            if shown is not None:
                tools[shown] = held
    return {name: held for name, held in tools.items() if name not in twice}
