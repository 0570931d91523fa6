"""The network probe on a real API server.

Nodes and network are simulated (`enforcement.simulated`), because a network that enforces NetworkPolicies is not
available everywhere.
"""

from __future__ import annotations

import asyncio
import shlex
from datetime import UTC, datetime
from typing import Any

import pytest

from controlplane import REPOSITORY
from fairlead_operator.enforcement.manifests import TARGET, ProbePods, target_job
from fairlead_operator.enforcement.probe import ClusterProbe
from fairlead_operator.enforcement.probe_answer import Direction, Enforcement
from fairlead_operator.enforcement.simulated import Fault
from operatorworld import Json, World, running, simulated_network

PODS = ProbePods("registry.example/fairlead:1")
RECORD = "fairlead-network-policies"
BOTH: frozenset[Direction] = frozenset({"incoming", "outgoing"})


def remaining_objects(world: World) -> list[str]:
    """Names of existing objects that a probe has created."""
    paths = ["/apis/batch/v1/{}/jobs", "/api/v1/{}/pods", "/apis/networking.k8s.io/v1/{}/networkpolicies"]
    listings = [world.request("GET", path.format(f"namespaces/{world.release}"))[1] for path in paths]
    return [item["metadata"]["name"] for listing in listings for item in listing["items"]]


@pytest.mark.parametrize(
    "enforces",
    [BOTH, frozenset(), frozenset({"incoming"}), frozenset({"outgoing"})],
    ids=["both ways", "not at all", "incoming alone", "outgoing alone"],
)
async def test_the_answer_is_what_the_network_does_with_policies_and_nothing_is_left(
    world: World, enforces: frozenset[Direction]
) -> None:
    async with simulated_network(world, enforces=enforces) as kube:
        answer = await ClusterProbe(kube, world.release, PODS, poll=0.05).run()
        await world.until("nothing left", lambda: not remaining_objects(world))
    assert answer == Enforcement("incoming" in enforces, "outgoing" in enforces)


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ("no pods", "has no pod; a ResourceQuota"),
        ("no network", "cannot connect to each other"),
    ],
)
async def test_a_probe_without_an_answer_says_why_and_leaves_nothing(world: World, fault: Fault, words: str) -> None:
    longest = 30.0 if fault == "no network" else 2.0
    async with simulated_network(world, fault=fault) as kube:
        answer = await ClusterProbe(kube, world.release, PODS, poll=0.05, timeout_s=longest).run()
        await world.until("nothing left", lambda: not remaining_objects(world))
    assert (answer.incoming, answer.outgoing) == (None, None)
    assert words in answer.unknown_reason


async def test_a_policy_that_lets_everything_in_does_not_prove_an_open_network(world: World) -> None:
    everything = {"metadata": {"name": "all"}, "spec": {"podSelector": {}, "ingress": [{}]}}
    path = f"/apis/networking.k8s.io/v1/namespaces/{world.release}/networkpolicies"
    assert world.request("POST", path, everything)[0] == 201
    async with simulated_network(world) as kube:
        answer = await ClusterProbe(kube, world.release, PODS, poll=0.05).run()
    assert answer.incoming is None
    assert "may allow what the probe tried (all)" in answer.unknown_reason


async def test_probe_objects_of_a_killed_operator_are_replaced(world: World) -> None:
    async with simulated_network(world) as kube:
        path = f"/apis/batch/v1/namespaces/{world.release}/jobs"
        assert world.request("POST", path, target_job(PODS, []))[0] == 201
        await world.until("its pod", lambda: TARGET in remaining_objects(world))
        answer = await ClusterProbe(kube, world.release, PODS, poll=0.05).run()
    assert answer == Enforcement(incoming=True, outgoing=True)


def record(world: World) -> Json:
    manifest = world.get(world.config_map_path(RECORD))
    return dict(manifest["data"]) if manifest is not None else {}


def run_page_commands(world: World) -> list[str]:
    """Output of the commands in docs/install/network-policies.md, except the Helm command."""
    text = (REPOSITORY / "docs/install/network-policies.md").read_text().replace("fairlead-system", world.release)
    commands = [shlex.split(line) for line in text.splitlines() if line.startswith("kubectl ")]
    return [world.plane.kubectl(*words[1:]).stdout for words in commands]


async def test_servers_in_pods_show_the_answer_which_a_restart_keeps_for_a_day(world: World) -> None:
    async with simulated_network(world, enforces=frozenset()):
        async with running(world, network_policy_probe="Daily") as operator:
            world.create("pods", {"image": {"name": "registry.example/demo:1"}})
            world.create("elsewhere", {"url": "http://127.0.0.1:9/mcp"})
            kind = "NetworkPolicyEnforced"
            await world.until("not enforced", lambda: world.is_("pods", kind, "False", "NetworkPolicyNotEnforced"))
            shown = world.condition("pods", kind)
            assert shown["reason"] == "NotEnforced"
            assert shown["message"].endswith("who may call all of the MCP servers there.")
            await world.until("looked at", lambda: world.condition("elsewhere", "Accepted"))
            assert world.condition("elsewhere", kind) == {}
            value = operator.telemetry.registry.get_sample_value
            assert value("fairlead_operator_network_policies_enforced", {"direction": "incoming"}) == 0
            await world.until("recorded", lambda: record(world).get("incoming") == "NotEnforced")
            first = record(world)
            servers, answer = await asyncio.to_thread(run_page_commands, world)
            mine = [line.split()[1:] for line in servers.splitlines() if line.startswith(f"{world.namespace} ")]
            assert mine == [["elsewhere", "<none>"], ["pods", "False"]]
            assert "incoming: NotEnforced" in answer
        await world.until("nothing left", lambda: not remaining_objects(world))
    async with running(world, network_policy_probe="Daily") as again:
        await world.until("leads", lambda: again.controller is not None)
        await world.until("taken up", lambda: _gauge(again) == 0)
        world.patch_server("elsewhere", {"spec": {"prefix": "other"}})
        await world.until("looked at", lambda: world.is_("elsewhere", "Accepted", "True"))
        assert record(world) == first
        assert remaining_objects(world) == []
        assert world.condition("pods", kind) == shown
    async with running(world):
        await world.until("no condition without the probe", lambda: world.condition("pods", kind) == {})


async def test_an_answer_that_is_a_day_old_is_asked_for_again(world: World) -> None:
    old = {"checkedAt": datetime(2020, 1, 1, tzinfo=UTC).isoformat(), "incoming": "NotEnforced", "outgoing": "Unknown"}
    path = world.config_map_path("")
    assert world.request("POST", path, {"metadata": {"name": RECORD}, "data": old})[0] == 201
    async with simulated_network(world), running(world, network_policy_probe="Daily") as operator:
        await world.until("another answer", lambda: record(world).get("incoming") == "Enforced")
        await world.until("told", lambda: _gauge(operator) == 1)


async def test_a_probe_that_was_cut_off_is_made_again_by_the_next_who_leads(world: World) -> None:
    world.create("pods", {"image": {"name": "registry.example/demo:1"}})
    async with running(world, network_policy_probe="Daily"):
        await world.until("a probe without nodes", lambda: TARGET in remaining_objects(world))
    assert record(world)["unended"] == "1"
    async with simulated_network(world), running(world, network_policy_probe="Daily"):
        await world.until("an answer", lambda: world.is_("pods", "NetworkPolicyEnforced", "True"))
        await world.until("recorded", lambda: record(world).get("incoming") == "Enforced")
    assert "unended" not in record(world)


async def test_after_three_probes_that_were_cut_off_a_day_passes_without_one(world: World) -> None:
    now = {"checkedAt": datetime.now(UTC).isoformat(), "incoming": "Unknown", "outgoing": "Unknown", "unended": "3"}
    assert world.request("POST", world.config_map_path(""), {"metadata": {"name": RECORD}, "data": now})[0] == 201
    world.create("pods", {"image": {"name": "registry.example/demo:1"}})
    async with simulated_network(world), running(world, network_policy_probe="Daily"):
        await world.until("no answer", lambda: world.is_("pods", "NetworkPolicyEnforced", "Unknown"))
        assert remaining_objects(world) == []
    assert record(world) == now


def _gauge(operator: Any) -> float | None:
    value: float | None = operator.telemetry.registry.get_sample_value(
        "fairlead_operator_network_policies_enforced", {"direction": "incoming"}
    )
    return value
