"""Every feature of a call with every kind of client and server: the outcome differs only where a specification demands
it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any, Final

import pytest
import pytest_asyncio

from call_matrix import Outcome, World, outcome, world
from gatewayworld import LEGACY, MODERN
from matrix_clients import KINDS
from matrix_features import FEATURES, GATED, LACKS, Feature
from matrix_servers import SERVERS
from otlpreceiver import otlp_receiver

pytestmark = pytest.mark.asyncio(loop_scope="module")

MCP: Final = tuple(name for name, kind in KINDS.items() if kind.over == "mcp")
OLD: Final = tuple(name for name in MCP if KINDS[name].era == LEGACY)
NEW: Final = tuple(name for name in MCP if KINDS[name].era == MODERN)
DECLARING: Final = tuple(name for name in MCP if KINDS[name].declares)
TASKED: Final = tuple(name for name in MCP if KINDS[name].tasks)
WITH_TOKEN: Final = tuple(name for name in MCP if KINDS[name].token)
REGISTRY: Final = ("ToolRegistry",)
HANDSHAKE: Final = ("legacy", "per-client")
"""Kinds of servers of 2025-11-25."""


def both(some: tuple[str, ...], others: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(name for name in some if name in others)


def without(some: tuple[str, ...], others: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(name for name in some if name not in others)


@dataclass(frozen=True)
class Difference:
    """Members of a feature's outcome that differ for some kinds of client, and the document that demands it."""

    feature: str
    kinds: tuple[str, ...]
    changes: Outcome
    demanded_by: str
    servers: tuple[str, ...] = SERVERS


UNSENT: Final[Outcome] = {"audit": [], "counted": {}}
"""The client itself refuses the call and sends nothing to the gateway."""
OWN_LIST: Final = "docs/connect/python.md: the registry calls what it has listed"
ASKS: Final = "a tool that asks its client finds nobody where nothing was declared"
BEHIND: Final = "a tool behind a client capability is kept from clients without it"
AHEAD: Final = "progress and log messages come ahead of the answer"
PICKED: Final[Outcome] = {
    "code": "ok",
    "says": "picked",
    "heard": ("elicitation/create",),
    "audit": [("allowed", "ok", "")],
}
ROUNDS: Final = "MCP 2026-07-28, Multi Round-Trip Requests (SEP-2322): the answers come with a call of their own"
LACKING: Final = "MCP 2026-07-28, MissingRequiredClientCapability: the error -32021, no result"
PROGRESS = "notifications/progress"
LOG = "notifications/message"

HEDGED: Final = "a slow call is overtaken by a second one"
ONCE: Final = "docs/reference/calls.md, A second attempt beside the first"
SENT_ONCE: Final[Outcome] = {
    "code": "TIMEOUT",
    "says": "lags of default/SERVER did not answer within 0.6 s, the maximum of the tool (maxDurationMs)",
    "requests": 1,
    "audit": [("allowed", "TIMEOUT", "")],
    "counted": {"TIMEOUT": 1},
}

MODERN_ONLY: Final = ("modern",)
BECOMES: Final = "a call that becomes a task where its client has tasks"
WAITS: Final = "a call that is always a task is waited for by clients without tasks"
INQUIRES: Final = "a task that asks its client finds nobody where nothing was declared"
FOLLOWS: Final = "SEP-2663: a client that declares tasks gets them"
REPORTS: Final = "docs/connect/extensions.md, Tasks: waited for with progress and questions, which go to the caller"
NO_TASKS: Final = "SEP-2663: the error -32021 for a client of 2026-07-28 that declares none"
UNTASKED: Final[Outcome] = {"code": "-32021", "says": "it is a task", "requests": 1, "tasks": ()}
REFUSED_OF_IT: Final[Outcome] = {
    "audit": [("refused", "MISSING_CLIENT_CAPABILITY", "")],
    "counted": {"MISSING_CLIENT_CAPABILITY": 1},
}
ITSELF: Final = "docs/connect/python.md: a registry waits for tasks itself, once it is told of one by -32021"
TWICE: Final[Outcome] = {
    "audit": [("refused", "MISSING_CLIENT_CAPABILITY", ""), ("allowed", "ok", "")],
    "counted": {"MISSING_CLIENT_CAPABILITY": 1, "ok": 1},
}
NOBODY: Final = (
    f"{LACKS}: elicitation/create: the tool requests input during the call, which a tool registry cannot provide"
)
INQUIRED: Final[Outcome] = {
    **PICKED,
    "counted": {"ok": 1},
    "tasks": ("tasks/get", "tasks/update", "tasks/get"),
}

DIFFERENCES: Final = (
    Difference("an unknown tool is named", REGISTRY, UNSENT, OWN_LIST),
    Difference("a tool that a policy hides is unknown", REGISTRY, UNSENT, OWN_LIST),
    Difference(
        "a tool that a policy denies openly is refused with the reason",
        REGISTRY,
        {**UNSENT, "says": "Unknown tool: explained"},
        OWN_LIST,
    ),
    Difference(
        "a tool over the budget of the tier names the tier that has it",
        REGISTRY,
        {**UNSENT, "code": "UNKNOWN_TOOL", "says": "Unknown tool: late"},
        OWN_LIST,
    ),
    Difference(
        "arguments that do not fit the schema are refused",
        REGISTRY,
        {**UNSENT, "says": "the arguments of strict do not match its inputSchema: n: expected integer, got a string"},
        "docs/connect/python.md: arguments are checked before anything is sent",
    ),
    Difference(
        "a kept result answers an equal call",
        (*NEW, "REST", *REGISTRY),
        {"marks": (), "requests": 1},
        "docs/reference/calls.md, Kept results: of one session where the server is PerClient, and these have none",
        servers=("per-client",),
    ),
    Difference(
        "a call that its client gives up is cancelled at the server",
        OLD,
        {"code": "CANCELLED", "says": "The call was cancelled"},
        "MCP 2025-11-25, Transports: given up by a notification, while the request still has to be answered",
    ),
    Difference(HEDGED, WITH_TOKEN, SENT_ONCE, f"{ONCE}: its client would hear the progress of both"),
    Difference(
        HEDGED, without(DECLARING, WITH_TOKEN), SENT_ONCE, f"{ONCE}: its client might be asked twice", servers=HANDSHAKE
    ),
    Difference(
        AHEAD,
        without(OLD, WITH_TOKEN),
        {"heard": (LOG,)},
        "MCP 2025-11-25, Logging: without logging/setLevel the server decides which messages it sends",
    ),
    Difference(
        AHEAD,
        both(OLD, WITH_TOKEN),
        {"heard": (PROGRESS, LOG)},
        "MCP 2025-11-25, Progress: reported to the request that has a token; Logging as above",
    ),
    Difference(
        AHEAD,
        both(NEW, WITH_TOKEN),
        {"heard": (PROGRESS,)},
        "MCP 2026-07-28, Progress: reported to the request that has a token; Logging: none without a logLevel",
    ),
    Difference(
        ASKS,
        both(OLD, DECLARING),
        {**PICKED, "counted": {"ok": 1}, "requests": 2},
        "MCP, Elicitation: who declares it is asked; the modern server gets its answer by a second call",
        servers=("modern",),
    ),
    Difference(
        ASKS,
        both(OLD, DECLARING),
        {**PICKED, "counted": {"ok": 1}},
        "MCP, Elicitation: a client that declares it is asked",
        servers=HANDSHAKE,
    ),
    Difference(
        ASKS,
        both(NEW, DECLARING),
        {**PICKED, "counted": {"ok": 2}, "audit": [("allowed", "ok", "")] * 2, "requests": 2},
        ROUNDS,
        servers=("modern",),
    ),
    Difference(
        ASKS,
        both(NEW, DECLARING),
        {**PICKED, "counted": {"ok": 2}, "audit": [("allowed", "ok", "")] * 2},
        ROUNDS,
        servers=HANDSHAKE,
    ),
    Difference(
        ASKS, without(NEW, DECLARING), {"code": "-32021", "says": "nobody to ask"}, LACKING, servers=("modern",)
    ),
    Difference(
        BEHIND,
        both(OLD, DECLARING),
        {**PICKED, "counted": {"ok": 1}, "requests": 2},
        "docs/how-it-works/endpoint.md, Tools behind client capabilities: called in a session with them",
        servers=("modern",),
    ),
    Difference(
        BEHIND,
        both(OLD, DECLARING),
        {**PICKED, "counted": {"ok": 1}, "requests": 1},
        "docs/how-it-works/endpoint.md, Tools behind client capabilities: called in a session with them",
        servers=HANDSHAKE,
    ),
    Difference(
        BEHIND,
        both(NEW, DECLARING),
        {**PICKED, "counted": {"ok": 2}, "audit": [("allowed", "ok", "")] * 2, "requests": 2},
        ROUNDS,
        servers=("modern",),
    ),
    Difference(
        BEHIND,
        both(NEW, DECLARING),
        {**PICKED, "counted": {"ok": 2}, "audit": [("allowed", "ok", "")] * 2, "requests": 1},
        ROUNDS,
        servers=HANDSHAKE,
    ),
    Difference(BEHIND, without(NEW, DECLARING), {"code": "-32021"}, LACKING),
    Difference(
        BEHIND,
        REGISTRY,
        {"says": f"{LACKS}: {GATED}"},
        "docs/connect/python.md: errors are values with the codes of a gateway",
    ),
    Difference(BECOMES, TASKED, {"tasks": ("tasks/get",)}, FOLLOWS, MODERN_ONLY),
    Difference(WAITS, both(OLD, WITH_TOKEN), {"heard": (PROGRESS,)}, REPORTS, MODERN_ONLY),
    Difference(WAITS, TASKED, {"requests": 1}, FOLLOWS, MODERN_ONLY),
    Difference(WAITS, without(NEW, TASKED), {**UNTASKED, **REFUSED_OF_IT}, NO_TASKS, MODERN_ONLY),
    Difference(WAITS, REGISTRY, TWICE, ITSELF, MODERN_ONLY),
    Difference(
        INQUIRES, without(both(OLD, WITH_TOKEN), DECLARING), {"heard": (PROGRESS, PROGRESS)}, REPORTS, MODERN_ONLY
    ),
    Difference(INQUIRES, without(both(OLD, DECLARING), WITH_TOKEN), INQUIRED, REPORTS, MODERN_ONLY),
    Difference(
        INQUIRES,
        both(both(OLD, DECLARING), WITH_TOKEN),
        {**INQUIRED, "heard": (PROGRESS, PROGRESS, "elicitation/create")},
        REPORTS,
        MODERN_ONLY,
    ),
    Difference(INQUIRES, TASKED, {**INQUIRED, "requests": 1}, FOLLOWS, MODERN_ONLY),
    Difference(INQUIRES, without(NEW, TASKED), UNTASKED, NO_TASKS, MODERN_ONLY),
    Difference(INQUIRES, REGISTRY, {"says": NOBODY, **TWICE}, ITSELF, MODERN_ONLY),
    Difference(
        "a resource that nobody has",
        OLD,
        {"code": "-32002", "audit": [("denied", "-32002", "Resource not found")], "counted": {"-32002": 1}},
        "MCP 2025-11-25, Resources: -32002, which SEP-2164 makes -32602",
    ),
)


def cells(*, exported: bool) -> list[Any]:
    """Parameters for each combination of a feature, a kind of client that has the feature's method, and a kind of
    server."""
    return [
        pytest.param(name, kind, server, id=f"{kind} at a {server} server: {name}")
        for name, feature in FEATURES.items()
        for kind in KINDS
        if feature.method in KINDS[kind].methods and feature.exported is exported
        for server in feature.servers
    ]


def translation(name: str, kind: str, server: str) -> tuple[object, ...]:
    """Key of the path through the gateway: feature, kind of server, era and transport of the client, with capabilities
    or not."""
    client = KINDS[kind]
    return name, server, client.era, client.over, bool(client.declares)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared_world(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[World]:
    """One gateway for all cells, each of which has its own servers."""
    async with world(tmp_path_factory.mktemp("every")) as started:
        yield started


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def exporting_world(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[World]:
    """Like `shared_world`, but the gateway exports spans to a collector."""
    with otlp_receiver() as collector:
        async with world(tmp_path_factory.mktemp("exporting"), collector) as started:
            yield started


def expected_outcome(feature: Feature, server: str) -> Outcome:
    """Outcome for every kind of client for which no document demands another."""
    return {**feature.expected, **feature.at.get(server, {})}


@pytest.mark.diagonal(also=translation)
@pytest.mark.parametrize(("name", "kind", "server"), cells(exported=False))
async def test_a_feature_is_the_same_for_every_client(shared_world: World, name: str, kind: str, server: str) -> None:
    feature = FEATURES[name]
    wanted = expected_outcome(feature, server)
    for difference in DIFFERENCES:
        if difference.feature == name and kind in difference.kinds and server in difference.servers:
            wanted |= difference.changes
    assert await outcome(shared_world, kind, server, feature.method, feature.play) == wanted


@pytest.mark.diagonal(also=translation)
@pytest.mark.parametrize(("name", "kind", "server"), cells(exported=True))
async def test_spans_are_the_same_for_every_client(exporting_world: World, name: str, kind: str, server: str) -> None:
    feature = FEATURES[name]
    assert await outcome(exporting_world, kind, server, feature.method, feature.play) == expected_outcome(
        feature, server
    )


@pytest.mark.parametrize(
    "difference", DIFFERENCES, ids=lambda difference: f"{difference.feature}: {', '.join(difference.kinds)}"
)
async def test_each_difference_of_a_client_is_real_and_stands_once(difference: Difference) -> None:
    """Each of its members differs in each of its cells, and no two differences are about the same cell."""
    assert difference.kinds
    assert difference.demanded_by
    for server in difference.servers:
        common = expected_outcome(FEATURES[difference.feature], server)
        assert [key for key, value in difference.changes.items() if common[key] == value] == []
    for other in DIFFERENCES:
        if other is not difference and other.feature == difference.feature:
            assert not ({*difference.kinds} & {*other.kinds} and {*difference.servers} & {*other.servers})
