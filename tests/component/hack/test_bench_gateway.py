"""The table of `hack/bench gateway`: every kind of client has a row, and its goals are read from those rows."""

from __future__ import annotations

import importlib.metadata
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from gateway.gateways import OWN, PROMPT, SERVERS, TOOLS, VERSIONS, Target, as_installed, world
from gateway.peers.peer import Peer
from gateway.tables import BARE_CLIENT, Outcomes, beside_peer, drawn, goals, peer_goals, rows
from gateway.workloads import BRIEF, CLIENTS, KINDS, OF_PEERS, PLAIN, SATURATED, WORKLOADS, Workload
from rig.loadtools import Outcome

REPOSITORY = Path(__file__).resolve().parents[3]
GATEWAY = Target("fairlead", 1, 1, prefixed=True)
WINDOW = (1.0, 0.1)
OUTCOME = Outcome(
    calls_per_second=10_000, p50=100, p99=200, p999=300, worst=400, cpu_user=10, cpu_system=10, utilization=1, foreign=0
)


def row(workload: Workload, era: str, **targets: Outcome) -> Outcomes:
    return {
        (workload.name, era, SATURATED, target.replace("_", " ")): {0: outcome} for target, outcome in targets.items()
    }


def test_the_table_has_a_row_for_each_kind_of_client() -> None:
    rows = {(workload.name, era) for workload in WORKLOADS for era in workload.eras}

    assert rows >= {
        ("small JSON", "legacy"),
        ("small JSON", "modern"),
        ("capabilities declared", "legacy"),
        ("progress token", "legacy"),
        ("progress token", "modern"),
        ("event stream to the client", "legacy"),
        ("PerClient session", "legacy"),
        ("prompts/get", "legacy"),
        ("prompts/get", "modern"),
        ("POST /v1/tool-calls", "legacy"),
    }


def test_a_quick_run_covers_every_kind_of_client() -> None:
    assert {*CLIENTS, PLAIN} <= {*BRIEF}
    assert len(BRIEF) < len(WORKLOADS)


@pytest.mark.parametrize(
    "workload", [workload for workload in WORKLOADS if not workload.tools], ids=lambda workload: workload.name
)
def test_tools_that_rows_of_the_benchmark_call_are_in_the_catalog(workload: Workload) -> None:
    catalogs = list(world(dict.fromkeys(KINDS, 1)))
    tools = {f"{catalog.prefix}__{tool.name}" for catalog in catalogs for tool in catalog.tools}
    prompts = {f"{catalog.prefix}__{prompt.name}" for catalog in catalogs for prompt in catalog.prompts}
    shown = prompts if workload.kind == "prompt" else tools

    assert {workload.called(era) for era in workload.eras} <= shown


def test_the_measured_gateway_imports_no_package_that_the_image_has_not(tmp_path: Path) -> None:
    import_all = "import fairlead_app.__main__, fairlead_rest.application, sys; print(*sys.modules)"
    command = [sys.executable, "-c", import_all]
    printed = subprocess.run(command, env=as_installed(tmp_path), check=True, capture_output=True, text=True).stdout

    def name_of(distribution: str) -> str:
        return re.sub(r"[-_.]+", "-", distribution).lower()

    locked = re.findall(r"^([\w.-]+)==", (REPOSITORY / "requirements/image.txt").read_text(), re.MULTILINE)
    in_image = {name_of(package) for package in (*locked, "fairlead")}
    sources = importlib.metadata.packages_distributions()
    packages = {module.partition(".")[0] for module in printed.split()}
    foreign = {
        package for package in packages if package in sources and in_image.isdisjoint(map(name_of, sources[package]))
    }
    assert foreign - {"_distutils_hack"} == set(), "setuptools' own hook of each environment apart"


def test_the_catalog_has_as_many_servers_and_tools_as_the_goals_speak_of() -> None:
    catalogs = list(world(dict.fromkeys(KINDS, 1)))

    assert len(catalogs) == SERVERS
    assert sum(len(catalog.tools) for catalog in catalogs) == SERVERS * TOOLS
    assert [each.name for each in catalogs if each.session == "PerClient"] == [f"{era}-{OWN}" for era in VERSIONS]
    assert [prompt.name for each in catalogs for prompt in each.prompts] == [PROMPT] * len(VERSIONS)


def test_kinds_of_clients_differ_in_what_they_send() -> None:
    words = [" ".join(workload.load(GATEWAY, "legacy", 1, WINDOW).words) for workload in (PLAIN, *CLIENTS)]

    assert len(set(words)) == len(words)
    assert '-C {"roots":{"listChanged":true},"sampling":{},"elicitation":{}}' in words[1]
    assert "-k" in words[2].split()
    assert "-a text/event-stream, application/json" in words[3]


def test_a_row_shows_p99_beside_p50_and_ratios_to_the_plain_client_in_the_same_rounds() -> None:
    capable = replace(OUTCOME, cpu_user=20, p99=300, collections=2, collecting=0.12)
    bare = OUTCOME
    outcomes = row(CLIENTS[0], "legacy", fairlead=capable, nginx=OUTCOME) | {
        (CLIENTS[0].name, "legacy", SATURATED, BARE_CLIENT): {0: bare}
    }

    shown = rows(outcomes)[0]

    columns = list(shown)
    assert columns[columns.index("p50 µs") + 1] == "p99 µs"
    assert {name: str(shown[name]) for name in ("× bare CPU", "× bare p99", "× nginx p99", "full GCs")} == {
        "× bare CPU": "1.50",
        "× bare p99": "1.50",
        "× nginx p99": "1.50",
        "full GCs": "2",
    }
    assert shown["full GCs ms"] == pytest.approx(120)


def test_goals_of_a_client_with_capabilities_are_about_nginx_and_about_the_plain_client() -> None:
    outcomes = row(CLIENTS[0], "legacy", fairlead=replace(OUTCOME, cpu_user=20), nginx=OUTCOME) | {
        (CLIENTS[0].name, "legacy", SATURATED, BARE_CLIENT): {0: OUTCOME}
    }

    values = {(goal.name, goal.unit): (goal.value, goal.met) for goal in goals(outcomes) if goal.value is not None}

    assert values["CPU per call, capabilities declared, legacy", "× bare client's"] == (1.5, False)
    assert values["p99, capabilities declared, legacy", "× bare client's"] == (1.0, True)
    assert values["calls/s, capabilities declared, legacy", "× nginx"] == (1.0, True)


def test_another_proxy_is_compared_on_every_row_that_it_served() -> None:
    peer = Peer("other", lambda stage, port, url: [], "echo", at_least=4)
    outcomes: Outcomes = {}
    for workload in (PLAIN, OF_PEERS[0]):
        outcomes |= row(workload, "legacy", fairlead=OUTCOME, other=replace(OUTCOME, calls_per_second=2_000))

    compared = peer_goals(outcomes, peer)

    assert [(goal.name, goal.value, goal.met) for goal in compared] == [
        (f"calls/s against other, {PLAIN.name}", 5.0, True),
        (f"calls/s against other, {OF_PEERS[0].name}", 5.0, True),
    ]


def test_another_proxy_is_compared_with_the_gateway_in_its_own_rounds() -> None:
    peer = Peer("other", lambda stage, port, url: [], "echo", at_least=4)
    slower = replace(OUTCOME, calls_per_second=8_000)
    faster = replace(OUTCOME, calls_per_second=12_000)
    outcomes = row(PLAIN, "legacy", fairlead=OUTCOME) | {
        (PLAIN.name, "legacy", SATURATED, "other"): {0: replace(OUTCOME, calls_per_second=2_000), 1: slower},
        (PLAIN.name, "legacy", SATURATED, beside_peer("other")): {0: slower, 1: faster},
    }

    (goal,) = peer_goals(outcomes, peer)

    assert goal.value == (4.0 + 1.5) / 2
    assert [word in drawn(outcomes) for word in (">other<", beside_peer("other"))] == [True, False]
