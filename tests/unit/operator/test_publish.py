"""Rules compiled from tiers and policies, and catalogs that are published only when they change."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import msgspec
import pytest

from fairlead_api.documents.catalog import Catalog
from fairlead_api.documents.codec import catalog_name, decode, encode
from fairlead_api.documents.store import Blob
from fairlead_api.meta import LABEL_DOCUMENT, LABEL_UID, ServerKey
from fairlead_api.v1alpha1.latencytier import LatencyTier
from fairlead_api.v1alpha1.toolpolicy import ToolPolicy
from fairlead_gateway.conversation.shipped_words import words_of
from fairlead_mcp.server_listing import RawListing
from fairlead_operator.discovery.catalog_build import CallAccess, build_catalog
from fairlead_operator.publish.catalogs import Catalogs
from fairlead_operator.publish.compile import compile_rules, selects
from fairlead_operator.publish.default_tiers import DEFAULT_TIERS
from operatorfakes import NOW, RUNS, MemoryDocuments, mcp_server, tool_named

KEY = ServerKey("team", "demo")


def tier(name: str, *, created: str = "2026-01-01T00:00:00Z", **spec: Any) -> LatencyTier:
    return LatencyTier.model_validate({"metadata": {"name": name, "creationTimestamp": created}, "spec": spec})


def policy(name: str, namespace: str = "team", **spec: Any) -> ToolPolicy:
    rules = {"rules": [{"action": "Allow", "tools": ["*"]}]}
    return ToolPolicy.model_validate({"metadata": {"name": name, "namespace": namespace}, "spec": {**rules, **spec}})


def test_default_tiers_hold_where_none_is_declared() -> None:
    rules = compile_rules([], [], {})
    assert [(t.name, t.max_latency_ms, t.default) for t in rules.tiers] == [
        ("deep", 4000, False),
        ("fast", 500, False),
        ("standard", 1500, False),
    ]
    assert [t.metadata.name for t in DEFAULT_TIERS] == ["fast", "standard", "deep"]


@pytest.mark.parametrize(("name", "shipped"), [("deep", True), ("deep", False), ("of-our-own", True)])
def test_a_tier_may_add_its_words_to_those_of_the_tier_that_ships(name: str, *, shipped: bool) -> None:
    words = {"keywords": ["ask the oracle", "why does"], "commands": ["consult the archive"], "shippedWords": shipped}
    (compiled,) = compile_rules([tier(name, selection=words)], [], {}).tiers
    keywords, commands = words_of(compiled)
    assert {"ask the oracle", "why does"} <= set(keywords)
    assert len(keywords) == len(set(keywords))
    assert "consult the archive" in commands
    assert ("take your time" in commands) is (shipped and name == "deep")
    assert compiled.selection.cooldown_ms == 0, "only words are added"


def test_words_that_ship_stand_in_no_default_tier_and_in_no_rules_document() -> None:
    rules = compile_rules([], [], {})
    assert all(words_of(each) != ([], []) for each in rules.tiers)
    assert len(b"".join(json.dumps(each.to_wire()).encode() for each in DEFAULT_TIERS)) < 2000
    assert len(encode(rules)) < 1000


def test_the_oldest_of_several_default_tiers_is_the_default() -> None:
    tiers = [
        tier("a", default=True, created="2026-02-01T00:00:00Z"),
        tier("b", default=True, created="2026-01-01T00:00:00Z"),
        tier("c"),
    ]
    assert [t.name for t in compile_rules(tiers, [], {}).tiers if t.default] == ["b"]


def test_the_tier_that_the_installation_names_is_the_default_whatever_the_tiers_say() -> None:
    tiers = [tier("a", default=True), tier("b")]
    assert [t.name for t in compile_rules(tiers, [], {}, configured_default="b").tiers if t.default] == ["b"]
    assert [t.name for t in compile_rules(tiers, [], {}, configured_default="none-such").tiers if t.default] == ["a"]
    assert [t.name for t in compile_rules([], [], {}, configured_default="deep").tiers if t.default] == ["deep"]


def test_equal_resources_give_equal_bytes_in_whatever_order_they_come() -> None:
    tiers = [tier("a", maxLatency="1s"), tier("b", selection={"keywords": ["deep", "slow"], "queueDepth": 3})]
    policies = [policy("p", rules=[{"action": "Allow", "tools": ["x"], "arguments": {"b": 1, "a": 2}}]), policy("o")]
    labels = {ServerKey("team", name): {"k": name} for name in ("x", "y")}
    turned = dict(reversed(labels.items()))
    assert encode(compile_rules(tiers, policies, labels)) == encode(compile_rules(tiers[::-1], policies[::-1], turned))


def test_a_policy_names_the_servers_of_its_namespace_that_it_selects() -> None:
    labels = {
        ServerKey("team", "a"): {"kind": "search"},
        ServerKey("team", "b"): {},
        ServerKey("other", "c"): {"kind": "search"},
    }
    policies = [policy("all"), policy("some", servers={"matchLabels": {"kind": "search"}})]
    compiled = compile_rules([], policies, labels).policies
    assert {p.name: p.servers for p in compiled} == {"all": ("a", "b"), "some": ("a",)}


@pytest.mark.parametrize(
    ("expression", "labels", "selected"),
    [
        ({"key": "k", "operator": "In", "values": ["a", "b"]}, {"k": "b"}, True),
        ({"key": "k", "operator": "In", "values": ["a"]}, {}, False),
        ({"key": "k", "operator": "NotIn", "values": ["a"]}, {}, True),
        ({"key": "k", "operator": "NotIn", "values": ["a"]}, {"k": "a"}, False),
        ({"key": "k", "operator": "Exists"}, {"k": ""}, True),
        ({"key": "k", "operator": "DoesNotExist"}, {"k": ""}, False),
    ],
)
def test_expressions_select_as_in_kubernetes(
    expression: dict[str, Any], labels: dict[str, str], selected: bool
) -> None:
    spec = policy("p", servers={"matchExpressions": [expression]}).spec
    assert selects(spec.servers, labels) is selected


def test_all_fields_of_a_policy_are_in_the_document() -> None:
    declared = policy(
        "p",
        subjects=[
            {"kind": "ServiceAccount", "name": "bot", "namespace": "agents"},
            {"kind": "Claim", "name": "team", "value": "a", "issuer": "https://i"},
        ],
        rules=[
            {
                "action": "Allow",
                "tools": ["get_*"],
                "tags": ["safe"],
                "categories": ["search"],
                "annotations": {"readOnlyHint": True},
                "arguments": {"type": "object"},
            }
        ],
        tiers={"default": "fast", "max": "standard"},
        limits={"maxTools": 5, "toolTokens": 900, "callsPerMinute": 60, "concurrency": 2, "tokensPerDay": 10**12},
        pinned=["get_time"],
        denied="Explain",
        controlCharacters="Escape",
        autoRun="ReadOnly",
    )
    (compiled,) = compile_rules([], [declared], {}).policies
    wire = msgspec.json.decode(msgspec.json.encode(compiled))
    assert wire == {
        "namespace": "team",
        "name": "p",
        "every": True,
        "subjects": [
            {"kind": "ServiceAccount", "name": "bot", "namespace": "agents"},
            {"kind": "Claim", "name": "team", "value": "a", "issuer": "https://i"},
        ],
        "rules": [
            {
                "action": "Allow",
                "tools": ["get_*"],
                "tags": ["safe"],
                "categories": ["search"],
                "annotations": {"readOnlyHint": True},
                "arguments": {"type": "object"},
            }
        ],
        "defaultTier": "fast",
        "maxTier": "standard",
        "limits": {"maxTools": 5, "toolTokens": 900, "callsPerMinute": 60, "concurrency": 2, "tokensPerDay": 10**12},
        "autoRun": "ReadOnly",
        "pinned": ["get_time"],
        "controlCharacters": "Escape",
        "denied": "Explain",
    }


def test_a_rules_document_reads_back_as_it_was_written() -> None:
    rules = compile_rules(
        [tier("a", selection={"keywords": ["x"]}, callTimeout="2s", hysteresisPercent=10)],
        [policy("p", rules=[{"action": "Allow", "tools": ["x"], "arguments": {"type": "object"}}])],
        {KEY: {}},
    )
    assert decode(encode(rules)) == rules


def catalog(*names: str, uid: str = "u") -> Catalog:
    tools = tuple(msgspec.Raw(msgspec.json.encode(tool_named(name))) for name in names)
    assert RUNS.endpoint is not None
    server = mcp_server(uid=uid)
    return build_catalog(server, RawListing("2026-07-28", tools=tools), CallAccess(RUNS.endpoint, None, "demo"))[0]


class Clock:
    """A clock that advances by an hour each time it is read."""

    def __init__(self) -> None:
        self.time = NOW

    def __call__(self) -> datetime:
        self.time += timedelta(hours=1)
        return self.time


async def test_a_catalog_is_written_when_it_says_something_new_and_keeps_its_time_otherwise() -> None:
    documents = MemoryDocuments()
    catalogs = Catalogs(documents, Clock())
    first = await catalogs.publish(catalog("a"), None)
    again = await catalogs.publish(catalog("a"), await catalogs.read(KEY, "u"))
    assert (documents.writes, again.updated_at) == (1, first.updated_at)
    changed = await catalogs.publish(catalog("a", "b"), await catalogs.read(KEY, "u"))
    assert documents.writes == 2
    assert changed.updated_at > first.updated_at


async def test_a_catalog_that_was_deleted_or_spoiled_comes_back_as_it_was() -> None:
    documents = MemoryDocuments()
    catalogs = Catalogs(documents, Clock())
    await catalogs.publish(catalog("a"), None)
    before = dict(documents.blobs)
    documents.blobs.clear()
    await catalogs.publish(catalog("a"), await catalogs.read(KEY, "u"))
    assert documents.blobs == before
    name = catalog_name(KEY)
    documents.blobs[name] = replace(before[name], data={"document.json": "{}"})
    assert await catalogs.read(KEY, "u") is None
    await catalogs.publish(catalog("a"), None)
    assert documents.blobs == before


async def test_a_catalog_that_lost_its_labels_gets_them_back() -> None:
    documents = MemoryDocuments()
    catalogs = Catalogs(documents, Clock())
    await catalogs.publish(catalog("a"), None)
    name = catalog_name(KEY)
    blob = documents.blobs[name]
    labels = {label: value for label, value in blob.labels.items() if label != LABEL_UID}
    documents.blobs[name] = replace(blob, labels=labels)
    await catalogs.publish(catalog("a"), await catalogs.read(KEY, "u"))
    assert documents.blobs[name] == blob


async def test_the_sweep_takes_what_belongs_to_nobody_and_leaves_other_kinds_alone() -> None:
    documents = MemoryDocuments()
    catalogs = Catalogs(documents, Clock())
    await catalogs.publish(catalog("a"), None)
    await documents.publish([Blob("fairlead-rules", {LABEL_DOCUMENT: "rules"})])
    assert await catalogs.sweep([(KEY, "u")]) == []
    assert await catalogs.sweep([(KEY, "of the successor")]) == [catalog_name(KEY)]
    assert set(documents.blobs) == {"fairlead-rules"}


async def test_the_sweep_leaves_a_catalog_alone_that_was_replaced_while_it_withdrew_others() -> None:
    class Slow(MemoryDocuments):
        async def withdraw(self, name: str) -> None:
            """Publish the successor of another server during the first withdrawal."""
            await super().withdraw(name)
            await catalogs.publish(replaced, None)

    documents = Slow()
    catalogs = Catalogs(documents, Clock())
    before = catalog("a")
    replaced = msgspec.structs.replace(before, name="other", uid="of the successor")
    await catalogs.publish(before, None)
    await catalogs.publish(msgspec.structs.replace(replaced, uid="u"), None)
    assert await catalogs.sweep([(replaced.key, replaced.uid)]) == [catalog_name(before.key)]
    assert set(documents.blobs) == {catalog_name(replaced.key)}
