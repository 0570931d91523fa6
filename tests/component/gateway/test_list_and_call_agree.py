"""All lists show the same tools of a tier, and calls agree with the lists, whatever is published and when.

Catalogs, tiers, policies and sequences of publications are random. A model of a few lines computes the expected lists.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from examples import examples
from fairlead_api.documents.catalog import Catalog
from fairlead_api.documents.rules import Policy, Rule, Rules, Subject, Tier
from fairlead_api.documents.state import ServerState, State, ToolState
from fairlead_api.meta import ServerKey
from fairlead_app.gateway import Gateway
from gatewayworld import LEGACY, MODERN, Clock, Wire, calling, catalog, modern, publish, running
from rawserver import Reply, Request, raw_server
from restworld import MESSAGES, get, post
from waiting import until_async

GRACE = 60.0
INVALID_PARAMS = -32602
FORMATS = ("mcp", "openai-chat", "anthropic", "gemini")
Cuts = dict[tuple[str, str], int]
"""By (server, tool): number of tiers, counted from the fastest, that do not list the tool."""


@dataclass(frozen=True)
class Scenario:
    """Publications of one example, in order. `pauses`: seconds after each publication."""

    tools: dict[str, list[str]]
    limits: list[int]
    states: list[Cuts]
    withheld: list[frozenset[tuple[str, str]]]
    """For each state: the (server, tool) pairs that policies hide from everybody."""
    pauses: list[float]

    @property
    def tiers(self) -> list[str]:
        """Names of the tiers, the fastest first."""
        return [f"t{limit}" for limit in self.limits]


@st.composite
def scenarios(draw: st.DrawFn) -> Scenario:
    names = st.lists(st.sampled_from(["a", "b", "c"]), min_size=1, max_size=3, unique=True)
    tools = draw(st.dictionaries(st.sampled_from(["shop", "dock"]), names, min_size=1, max_size=2))
    limits = sorted(draw(st.lists(st.sampled_from([100, 500, 1500, 4000]), min_size=2, max_size=3, unique=True)))
    each = st.fixed_dictionaries(
        {(server, tool): st.integers(0, len(limits)) for server, names in tools.items() for tool in names}
    )
    states = draw(st.lists(each, min_size=2, max_size=4))
    places = [(server, tool) for server, names in tools.items() for tool in names]
    some: st.SearchStrategy[frozenset[tuple[str, str]]] = st.just(frozenset()) | st.frozensets(st.sampled_from(places))
    withheld = draw(st.lists(some, min_size=len(states), max_size=len(states)))
    pauses = draw(st.lists(st.sampled_from([1.0, 40.0, 61.0]), min_size=len(states), max_size=len(states)))
    return Scenario(tools, limits, states, withheld, pauses)


def document(scenario: Scenario, cuts: Cuts, number: int) -> State:
    """State that the operator would publish."""
    servers = []
    for server, names in scenario.tools.items():
        states = [
            ToolState(
                name=name,
                tiers=tuple(scenario.tiers[cuts[server, name] :]),
                hidden={tier: f"over_budget tier={tier}" for tier in scenario.tiers[: cuts[server, name]]},
            )
            for name in names
        ]
        servers.append(ServerState(namespace="default", name=server, tools=tuple(states)))
    return State(servers=tuple(servers), decided_at=f"2026-01-01T00:00:{number:02}Z")


def rules(scenario: Scenario, number: int) -> Rules:
    """Rules about tiers and policies that the operator would publish."""
    tiers = tuple(
        Tier(name=name, max_latency_ms=limit, default=number == 0)
        for number, (name, limit) in enumerate(zip(scenario.tiers, scenario.limits, strict=True))
    )
    policies = []
    for server in sorted({server for server, _ in scenario.withheld[number]}):
        denied = tuple(sorted(tool for owner, tool in scenario.withheld[number] if owner == server))
        both = (Rule(action="Allow", tools=("*",)), Rule(action="Deny", tools=denied))
        everybody = (Subject(kind="Any"),)
        policies.append(Policy(namespace="default", name=server, servers=(server,), subjects=everybody, rules=both))
    return Rules(tiers=tiers, policies=tuple(policies))


@dataclass
class Model:
    """Model of the expected lists. `since`: by tier and exposed name, the time since which a tool has been hidden."""

    scenario: Scenario
    since: dict[tuple[str, str], float] = field(default_factory=dict)
    withheld: frozenset[str] = frozenset()
    """Exposed names that policies hide from everybody."""

    def record_published(self, cuts: Cuts, withheld: frozenset[tuple[str, str]], now: float) -> None:
        self.withheld = frozenset(f"{server}__{tool}" for server, tool in withheld)
        for (server, tool), cut in cuts.items():
            for index, tier in enumerate(self.scenario.tiers):
                if index >= cut:
                    self.since.pop((tier, f"{server}__{tool}"), None)
                else:
                    self.since.setdefault((tier, f"{server}__{tool}"), now)

    def names(self) -> list[str]:
        return sorted(f"{server}__{tool}" for server, tools in self.scenario.tools.items() for tool in tools)

    def list_tools(self, tier: str) -> list[str]:
        return [name for name in self.names() if (tier, name) not in self.since and name not in self.withheld]

    def expected_outcome(self, tier: str, name: str, now: float) -> str:
        """Expected outcome of a call."""
        if name in self.withheld:
            return "unknown"
        since = self.since.get((tier, name))
        return "done" if since is None or now < since + GRACE else "OVER_BUDGET"


async def lists(gateway: Gateway, wire: Wire, scenario: Scenario, tier: str) -> dict[str, list[str]]:
    """The listed tools of a tier, by the way of listing them."""

    async def over_mcp(target: str, **headers: str) -> list[str]:
        answer = await wire.ask(modern("tools/list").to(target).with_headers(**headers))
        if answer.status == 404 and target.startswith("/servers/"):
            return []  # a server without visible tools does not exist for the caller
        return [tool["name"] for tool in answer.message["result"]["tools"]]

    listings = {"path": await over_mcp(f"/mcp/{tier}"), "header": await over_mcp("/mcp", fairlead_tier=tier)}
    if tier == scenario.tiers[0]:
        listings["default"] = await over_mcp("/mcp")
        listings["rest default"] = [tool["name"] for tool in (await get(gateway, "/v1/tools")).message["tools"]]
    own = [
        f"{server}__{name}"
        for server in sorted(scenario.tools)
        for name in await over_mcp(f"/servers/default/{server}/mcp/{tier}")
    ]
    listings["servers"] = own
    rest = (await get(gateway, f"/v1/tools?tier={tier}")).message["tools"]
    listings["rest"] = [tool["name"] for tool in rest]
    for name in FORMATS:
        listings[name] = list((await get(gateway, f"/v1/tools?tier={tier}&format={name}")).message["names"].values())
    plan = (await post(gateway, "/v1/plan", {"models": ["gpt-4o"], "messages": [], "tier": tier})).message
    listings["plan"] = list(plan["offer"]["names"].values())
    return listings


async def outcomes(gateway: Gateway, wire: Wire, tier: str, name: str) -> set[str]:
    """Outcomes of a call that is made in every way; a single one if they agree."""
    server, tool = name.split("__")
    asks = [
        calling(name).to(f"/mcp/{tier}"),
        calling(name, era=LEGACY).to(f"/mcp/{tier}"),
        calling(name).with_headers(fairlead_tier=tier),
        calling(tool).to(f"/servers/default/{server}/mcp/{tier}"),
    ]
    results = set()
    for ask in asks:
        answer = await wire.ask(ask)
        if answer.status == 404 or answer.message.get("error", {}).get("code") == INVALID_PARAMS:
            results.add("unknown")
        else:
            results.add(answer.refusal if answer.message["result"].get("isError") else "done")
    body = {"format": "mcp", "message": MESSAGES["mcp"]([("1", name, {})]), "tier": tier}
    (call,) = (await post(gateway, "/v1/tool-calls", body)).message["calls"]
    # calls of unknown tools are left to the caller, who may have a tool of that name
    results.add("unknown" if call["state"] == "pending" else call.get("code") or call["state"])
    return results


async def handle(request: Request, reply: Reply) -> None:
    reply.result(request, {"resultType": "complete", "content": []})


def catalogs(scenario: Scenario, url: str) -> Sequence[Catalog]:
    return [catalog(server, url, names) for server, names in scenario.tools.items()]


async def publish_and_await(gateway: Gateway, folder: Path, state: State, rules: Rules) -> None:
    """Publish both documents, and wait until the gateway applies them."""

    async def is_seen() -> bool:
        snapshot = gateway.snapshot
        if snapshot.rules != rules:
            return False
        shown = (snapshot.states.get(ServerKey(server.namespace, server.name), {}) for server in state.servers)
        return all(
            states.get(tool.name) == tool
            for server, states in zip(state.servers, shown, strict=True)
            for tool in server.tools
        )

    publish(folder / "documents", state, rules)
    await until_async("what was published", is_seen, seconds=20)


async def play(scenario: Scenario, folder: Path) -> None:
    """Play one scenario at a gateway."""
    clock = Clock()
    model = Model(scenario)
    async with raw_server(handle) as server:
        documents: list[Catalog | Rules] = [*catalogs(scenario, server.url), rules(scenario, 0)]
        async with (
            running(folder, *documents, clock=clock) as gateway,
            await Wire.connect(gateway) as wire,
        ):
            for number, (cuts, pause) in enumerate(zip(scenario.states, scenario.pauses, strict=True)):
                await publish_and_await(gateway, folder, document(scenario, cuts, number), rules(scenario, number))
                model.record_published(cuts, scenario.withheld[number], clock())
                clock.forward(pause)
                for tier in scenario.tiers:
                    for way, names in (await lists(gateway, wire, scenario, tier)).items():
                        assert sorted(names) == model.list_tools(tier), (way, tier, number)
                    for name in model.names():
                        results = await outcomes(gateway, wire, tier, name)
                        assert results == {model.expected_outcome(tier, name, clock())}, (name, tier, number)
            unknown = await wire.ask(calling("shop__none", era=MODERN).to(f"/mcp/{scenario.tiers[0]}"))
            assert unknown.code == INVALID_PARAMS


@pytest.mark.heavy
@pytest.mark.timeout(180)
@settings(max_examples=examples(20), deadline=None, suppress_health_check=list(HealthCheck))
@given(scenarios())
async def test_lists_agree_with_each_other_and_with_calls(scenario: Scenario) -> None:
    with tempfile.TemporaryDirectory() as folder:
        await play(scenario, Path(folder))
