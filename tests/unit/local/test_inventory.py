"""Members that an API server would add to a resource, and changes that a replacement reports."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from fairlead_api.documents.catalog import Credential
from fairlead_api.load import ManifestOrigin
from fairlead_api.meta import ServerKey
from fairlead_api.v1alpha1.common import Condition, ObjectMeta
from fairlead_api.v1alpha1.latencytier import LatencyTier, LatencyTierSpec
from fairlead_api.v1alpha1.mcpserver import McpServer
from fairlead_operator.local.inventory import Contents, DeclaredSecret, DeclaredServer, Inventory

START = datetime(2026, 1, 1, tzinfo=UTC)


class Clock:
    def __init__(self) -> None:
        self.time = START

    def __call__(self) -> datetime:
        self.time += timedelta(seconds=1)
        return self.time


def contents_with(*declared: DeclaredServer, **more: Any) -> Contents:
    return Contents(servers={each.key: each for each in declared}, **more)


def server(name: str, command: str = "x", labels: dict[str, str] | None = None, **more: Any) -> DeclaredServer:
    manifest = {
        "metadata": {"name": name, "namespace": "default", "labels": labels or {}},
        "spec": {"command": [command]},
    }
    return DeclaredServer(McpServer.model_validate(manifest), **more)


A = ServerKey("default", "a")
B = ServerKey("default", "b")


def test_a_change_of_the_spec_counts_and_nothing_else_does() -> None:
    inventory = Inventory(Clock())
    assert inventory.replace(contents_with(server("a"), server("b"))).servers == {A, B}
    assert not inventory.replace(contents_with(server("a"), server("b")))
    assert inventory.replace(contents_with(server("a", "y"), server("b"))).servers == {A}
    metadata = inventory.contents.servers[A].server.metadata
    assert (metadata.generation, metadata.creation_timestamp) == (2, START + timedelta(seconds=1))
    assert inventory.contents.servers[B].server.metadata.generation == 1


def test_a_server_that_goes_is_a_change_and_keeps_its_uid_when_it_comes_back() -> None:
    inventory = Inventory(Clock())
    inventory.replace(contents_with(server("a")))
    uid = inventory.contents.servers[A].server.metadata.uid
    assert inventory.replace(contents_with()).servers == {A}
    inventory.replace(contents_with(server("a")))
    assert inventory.contents.servers[A].server.metadata.uid == uid


def test_another_credential_or_secret_is_a_change_of_servers() -> None:
    inventory = Inventory()
    inventory.replace(contents_with(server("a"), server("b")))
    changed = inventory.replace(contents_with(server("a", credential=Credential(env={"A": "1"})), server("b")))
    assert changed.servers == {A}
    secrets = {("default", "s"): DeclaredSecret("default", "s", {})}
    changed = inventory.replace(
        contents_with(server("a", credential=Credential(env={"A": "1"})), server("b"), secrets=secrets)
    )
    assert changed.servers == {A, B}


async def test_tiers_policies_and_labels_are_what_rules_are_made_of() -> None:
    inventory = Inventory()
    assert inventory.replace(contents_with(server("a"))).rules
    assert not inventory.replace(contents_with(server("a", "y"))).rules
    assert inventory.replace(contents_with(server("a", "y", {"team": "x"}))).rules
    tier = LatencyTier(metadata=ObjectMeta(name="t"), spec=LatencyTierSpec())
    assert inventory.replace(contents_with(server("a", "y", {"team": "x"}), tiers=(tier,))).rules
    assert await inventory.tiers() == (tier,)
    assert await inventory.labels() == {A: {"team": "x"}}


async def test_the_second_tier_that_is_the_default_is_a_fault_at_its_line_until_it_is_gone() -> None:
    reports: list[int] = []
    inventory = Inventory(Clock(), on_fault=lambda: reports.append(1))
    tier = LatencyTier(metadata=ObjectMeta(name="slow"), spec=LatencyTierSpec(default=True))
    origins = {("LatencyTier", *tier.key): ManifestOrigin("tiers.yaml", 7)}
    inventory.replace(contents_with(tiers=(tier,), origins=origins))
    conflicted = Condition(
        type="Conflicted", status="True", reason="DefaultTaken", message="no effect", last_transition_time=START
    )
    for _ in range(2):
        await inventory.write_tier_conditions({"slow": [conflicted]}, "fast")
    assert [str(fault) for fault in inventory.faults] == ["tiers.yaml:7: LatencyTier slow: no effect"]
    assert len(reports) == 1
    inventory.replace(contents_with())
    assert inventory.faults == []
