"""Callers, random policies and catalogs, and a naive oracle of the merge table that shares no code with the real one.

The oracle applies the sentences of the table to one tool at a time, with its own matcher.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from hypothesis import strategies as st

from fairlead_api.documents.catalog import Catalog, ToolEntry
from fairlead_api.documents.rules import Policy, Rule, Rules, Subject
from fairlead_app.gateway import Gateway
from fairlead_gateway.core.identity import Identity, Kind, ServiceAccount
from fairlead_gateway.identity.authenticator import Revoke, Verdict
from fairlead_gateway.identity.refusal import UNKNOWN_TOKEN
from gatewayworld import Ask, ask, catalog, entry, modern
from rawserver import Reply, Request
from toolservers import answer_handshake, tool

TOOLS = ("ab", "abc", "ba", "web-search", "x")
GLOBS = ("*", "a*", "*b", "?b*", "web-search", "x", "*-*", "nothing")
SERVERS = ("s", "t")
NAMESPACES = ("n", "m")
ONLY_ONE = {"type": "object", "properties": {"n": {"const": 1}}, "required": ["n"]}
ONLY_TWO = {"type": "object", "properties": {"n": {"const": 2}}, "required": ["n"]}


@dataclass(frozen=True)
class Server:
    """A server of a generated catalog."""

    namespace: str
    name: str
    trusted: bool
    tools: tuple[tuple[str, str, bool], ...]
    """Name, tag, readOnlyHint."""

    def catalog(self, url: str) -> Catalog:
        entries: list[ToolEntry] = []
        for name, tag, read_only in self.tools:
            definition = {**tool(name), "annotations": {"readOnlyHint": read_only}}
            definition["inputSchema"] = {"type": "object"}
            entries.append(entry(definition, tags=(tag,)))
        return catalog(
            self.name,
            url,
            entries,
            namespace=self.namespace,
            prefix=f"{self.namespace}{self.name}",
            trust_annotations=self.trusted,
        )


@dataclass(frozen=True)
class Drawn:
    """A generated world: servers, rules, and a caller."""

    servers: tuple[Server, ...]
    rules: Rules
    asker: Identity
    judged: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


def anybody(name: str = "npc", *groups: str, account: tuple[str, str] | None = None) -> Identity:
    """A caller with a credential."""
    service_account = None if account is None else ServiceAccount(*account)
    return Identity(
        kind="apiKey", principal=f"key:{name}", agent=name, groups=frozenset(groups), service_account=service_account
    )


def identity_of_issuer(issuer: str, name: str, *groups: str) -> Identity:
    """A caller with a token of an issuer, if other authenticators may use the same names."""
    doubtful = {("Agent", name), *(("Group", group) for group in groups)}
    return Identity(
        kind="jwt",
        principal=f"jwt:{issuer}#{name}",
        agent=name,
        groups=frozenset(groups),
        issuers=(issuer,),
        doubtful=frozenset(doubtful),
    )


@st.composite
def servers(draw: st.DrawFn) -> tuple[Server, ...]:
    places = [(namespace, name) for namespace in NAMESPACES for name in SERVERS]
    chosen = draw(st.lists(st.sampled_from(places), min_size=1, max_size=3, unique=True))
    each = st.tuples(st.sampled_from(TOOLS), st.sampled_from(["safe", "wild"]), st.booleans())
    tools = st.lists(each, max_size=4, unique_by=lambda drawn: drawn[0])
    return tuple(Server(namespace, name, draw(st.booleans()), tuple(draw(tools))) for namespace, name in chosen)


@st.composite
def rules_of(draw: st.DrawFn) -> Rule:
    action = draw(st.sampled_from(["Allow", "Allow", "Deny"]))
    by = draw(st.sampled_from(["tools", "tags", "annotations", "both"]))
    globs = tuple(draw(st.lists(st.sampled_from(GLOBS), min_size=1, max_size=2, unique=True)))
    return Rule(
        action=action,
        tools=globs if by in ("tools", "both") else (),
        tags=(draw(st.sampled_from(["safe", "wild"])),) if by in ("tags", "both") else (),
        annotations={"readOnlyHint": draw(st.booleans())} if by == "annotations" else {},
        arguments=draw(st.sampled_from([None, None, ONLY_ONE, ONLY_TWO])) if action == "Allow" else None,
    )


SUBJECTS = (
    Subject(kind="Agent", name="npc"),
    Subject(kind="Agent", name="qa"),
    Subject(kind="Group", name="staff"),
    Subject(kind="ServiceAccount", name="bot"),
    Subject(kind="ServiceAccount", name="bot", namespace="elsewhere"),
    Subject(kind="Agent", name="npc", issuer="corp"),
    Subject(kind="Group", name="staff", issuer="*"),
    Subject(kind="Authenticated"),
    Subject(kind="Any"),
)


@st.composite
def policies(draw: st.DrawFn) -> tuple[Policy, ...]:
    drawn = []
    for number in range(draw(st.integers(0, 4))):
        every = draw(st.booleans())
        drawn.append(
            Policy(
                namespace=draw(st.sampled_from(NAMESPACES)),
                name=f"p{number}",
                every=every,
                servers=() if every else tuple(draw(st.sets(st.sampled_from(SERVERS)))),
                subjects=tuple(draw(st.lists(st.sampled_from(SUBJECTS), max_size=2, unique=True))),
                rules=tuple(draw(st.lists(rules_of(), min_size=1, max_size=3))),
                denied=draw(st.sampled_from(["Hide", "Explain"])),
            )
        )
    return tuple(drawn)


ASKERS = (
    Identity(kind="anonymous", principal="anonymous"),
    anybody("npc"),
    anybody("qa", "staff"),
    anybody("else", account=("n", "bot")),
    anybody("other", "staff", "more", account=("elsewhere", "bot")),
    identity_of_issuer("corp", "npc", "staff"),
    identity_of_issuer("partner", "npc", "staff"),
)


@st.composite
def worlds(draw: st.DrawFn) -> Drawn:
    rules = Rules(policies=draw(policies()), default_action=draw(st.sampled_from(["Allow", "Allow", "Deny"])))
    return Drawn(draw(servers()), rules, draw(st.sampled_from(ASKERS)))


# The oracle


def is_allowed(world: Drawn, server: Server, name: str) -> bool | list[dict[str, Any]]:
    """False if the tool does not exist for the caller, True if the caller may call it. With schemas, arguments must
    match one of them.
    """
    selecting = [
        policy
        for policy in world.rules.policies
        if policy.namespace == server.namespace and (policy.every or server.name in policy.servers)
    ]
    if not selecting:
        return world.rules.default_action == "Allow"
    matching = [
        rule
        for policy in selecting
        if (spoken := speaks(policy, world.asker))
        for rule in policy.rules
        if (spoken == "fully" or rule.action == "Deny")
        and about(rule, server, next(candidate for candidate in server.tools if candidate[0] == name))
    ]
    if any(rule.action == "Deny" for rule in matching) or not matching:
        return False
    schemas = [rule.arguments for rule in matching]
    return True if None in schemas else [schema for schema in schemas if schema is not None]


def speaks(policy: Policy, asker: Identity) -> Literal["", "fully", "restricting"]:
    """Whether one of the policy's subjects is the caller. With `restricting`, also if the caller's name is
    ambiguous.
    """
    if not policy.subjects:
        return "fully"
    word: Literal["", "restricting"] = ""
    for subject in policy.subjects:
        if subject.issuer not in (None, "*", *asker.issuers):
            continue
        if subject.issuer is None and (subject.kind, subject.name) in asker.doubtful:
            word = "restricting"
            continue
        account = asker.service_account
        if (
            subject.kind == "Any"
            or (subject.kind == "Authenticated" and asker.kind != "anonymous")
            or (subject.kind == "Agent" and asker.agent == subject.name)
            or (subject.kind == "Group" and subject.name in asker.groups)
            or (
                subject.kind == "ServiceAccount"
                and account is not None
                and (account.namespace, account.name) == (subject.namespace or policy.namespace, subject.name)
            )
        ):
            return "fully"
    return word


def about(rule: Rule, server: Server, tool_: tuple[str, str, bool]) -> bool:
    """Whether a rule applies to a tool."""
    name, tag, read_only = tool_
    if rule.tools and not any(glob_matches(glob, name) for glob in rule.tools):
        return False
    if rule.tags and tag not in rule.tags:
        return False
    wanted = rule.annotations.get("readOnlyHint")
    return wanted is None or wanted is (server.trusted and read_only)


def glob_matches(glob: str, name: str) -> bool:
    """Whether a glob matches, by the definition of globs."""
    if not glob:
        return not name
    if glob[0] == "*":
        return any(glob_matches(glob[1:], name[start:]) for start in range(len(name) + 1))
    return bool(name) and glob[0] in ("?", name[0]) and glob_matches(glob[1:], name[1:])


def tools_of(world: Drawn) -> Sequence[tuple[Server, str]]:
    """All tools."""
    return [(server, name) for server in world.servers for name, _, _ in server.tools]


class Vouching:
    """An authenticator that uses the token as the name of one of these callers."""

    kind: Kind = "apiKey"
    cache_seconds = float("inf")

    def __init__(self, *identities: Identity) -> None:
        self._identities = {identity.agent: identity for identity in identities}

    def recognizes(self, token: str) -> bool:
        return True

    def check(self, token: str) -> Verdict:
        return self._identities.get(token, UNKNOWN_TOKEN)

    async def look_up(self, token: str) -> Verdict:
        return self.check(token)

    async def start(self, revoked: Revoke) -> None:
        """No-op: no caller is ever revoked."""

    async def aclose(self) -> None:
        pass


def by(name: str, ask: Ask) -> Ask:
    """The request with a caller's credential."""
    return ask.with_headers(authorization=f"Bearer {name}")


async def handle(request: Request, reply: Reply) -> None:
    """A tool server that answers a call with the received arguments."""
    if not answer_handshake(request, reply):
        reply.result(request, {"resultType": "complete", "content": [], "saw": request.params.get("arguments")})


def tavern(url: str, *tools: Any, **more: Any) -> Catalog:
    """Catalog of a server with a tool for the web and one for dice, or with the given tools."""
    return catalog("tavern", url, tools or ["web-search", "roll-dice"], **more)


async def list_tools(gateway: Gateway, who: str, target: str = "/mcp") -> list[str]:
    """Names of the tools in an agent's list."""
    answer = await ask(gateway, by(who, modern("tools/list").to(target)))
    return [tool["name"] for tool in answer.message["result"]["tools"]]
