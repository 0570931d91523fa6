"""Pure parts of the Kubernetes adapters: fingerprints, surplus, blobs, credentials, resource versions."""

from __future__ import annotations

from typing import Any, cast

import pytest

from fairlead_api.documents.catalog import CATALOG
from fairlead_api.documents.store import pack
from fairlead_api.meta import ServerKey
from fairlead_api.v1alpha1.toolpolicy import ToolPolicy
from fairlead_kube.client import EXCESS_MEMBER, Json, Kube
from fairlead_kube.errors import Invalid, NotFound
from fairlead_kube.resources import TOOL_POLICIES
from fairlead_operator.kube.credentials import (
    LabelledSecret,
    shard_name,
    store_key,
    store_names,
)
from fairlead_operator.kube.declared_resources import (
    BrokenResource,
    DeclaredResources,
    DeclaredServers,
    deny_all_policy,
)
from fairlead_operator.kube.documents import blob_from, config_map_for, holds
from fairlead_operator.kube.owned import fingerprint, has_surplus, owner_of
from fairlead_operator.kube.platform import KubePlatform, KubePlatformParts, endpoint_of, request_url
from fairlead_operator.ports import UnreadableServer
from operatorfakes import mcp_server


def deployment(**changes: Any) -> Json:
    metadata = {"name": "a", "uid": "u", "resourceVersion": "1", "generation": 1, "managedFields": [{"manager": "x"}]}
    metadata["annotations"] = {"deployment.kubernetes.io/revision": "1"}
    return {"metadata": metadata, "spec": {"replicas": 1}, "status": {"replicas": 1}, **changes}


def test_bookkeeping_and_status_do_not_change_a_fingerprint_and_all_else_does() -> None:
    first = deployment()
    other = deployment(status={"replicas": 7}, kind="Deployment")
    other["metadata"] |= {"resourceVersion": "9", "generation": 4, "managedFields": []}
    other["metadata"]["annotations"] = {"deployment.kubernetes.io/revision": "2"}
    assert fingerprint(first) == fingerprint(other)
    assert fingerprint(deployment(spec={"replicas": 2})) != fingerprint(first)
    relabelled = deployment()
    relabelled["metadata"]["labels"] = {"a": "b"}
    assert fingerprint(relabelled) != fingerprint(first)


@pytest.mark.parametrize(
    ("wanted", "actual", "surplus"),
    [
        ({"ports": [{"port": 1}]}, {"ports": [{"port": 1, "protocol": "TCP"}]}, False),
        ({"ports": [{"port": 1}]}, {"ports": [{"port": 1}, {"port": 2}]}, True),
        ({"a": {"b": [1]}}, {"a": {"b": [1], "c": [1, 2]}}, False),
        ({"containers": [{"env": []}]}, {"containers": [{"env": [{"name": "X"}]}]}, True),
        ({"a": 1}, {}, False),
    ],
)
def test_surplus_members_are_those_of_longer_lists(wanted: Json, actual: Json, surplus: bool) -> None:
    assert has_surplus(wanted, actual) is surplus


def test_only_the_controlling_mcpserver_is_an_owner() -> None:
    def item(**reference: Any) -> Json:
        return {"metadata": {"namespace": "team", "ownerReferences": [{"name": "demo", "uid": "u", **reference}]}}

    assert owner_of(item(kind="McpServer", controller=True)) == (ServerKey("team", "demo"), "u")
    assert owner_of(item(kind="McpServer")) is None
    assert owner_of(item(kind="ReplicaSet", controller=True)) is None
    assert owner_of({"metadata": {}}) is None


@pytest.mark.parametrize("size", [10, 2_000_000])
def test_blobs_come_back_from_config_maps_as_they_were(size: int) -> None:
    noise = "".join(chr(0x4E00 + (number * 7919) % 20_000) for number in range(size))
    for blob in pack("name", CATALOG, noise.encode(), {"a": "b"}):
        back = blob_from(config_map_for(blob, "release"))
        assert back == blob
        assert holds(back, blob)


def test_labels_of_others_do_not_matter_and_foreign_content_does() -> None:
    (blob,) = pack("name", CATALOG, b"{}")
    config_map = config_map_for(blob, "release")
    config_map["metadata"]["labels"] = {**blob.labels, "theirs": "x"}
    assert holds(blob_from(config_map), blob)
    config_map["data"] = {**blob.data, "more": "x"}
    assert not holds(blob_from(config_map), blob)
    config_map["binaryData"] = {"bad": "***"}
    assert blob_from(config_map).binary == {"bad": b""}


def test_every_server_has_its_place_among_the_fixed_secrets() -> None:
    keys = [ServerKey(f"ns{number % 7}", f"server{number}") for number in range(1000)]
    assert {shard_name(key) for key in keys} == set(store_names())
    assert len({store_key(key) for key in keys}) == 1000
    assert store_key(ServerKey("a-b", "c")) != store_key(ServerKey("a", "b-c"))


def test_a_secret_shows_its_keys_and_never_its_values() -> None:
    item = {
        "metadata": {"namespace": "n", "name": "s", "uid": "u", "resourceVersion": "1"},
        "data": {"token": "czNjcmV0"},
    }
    secret = LabelledSecret.from_object(item)
    assert secret.value("token") == b"s3cret"
    assert secret.value("none") is None
    assert "czNjcmV0" not in repr(secret)


def test_an_image_is_reached_by_its_service_and_a_url_as_it_stands() -> None:
    image = mcp_server("demo", image={"name": "demo:1", "port": 9000, "path": "/x", "hostHeader": "h"})
    assert getattr(endpoint_of(image), "url", None) == "http://demo.team.svc:9000/x"
    assert getattr(endpoint_of(image), "host_header", None) == "h"
    assert request_url(image) == "http://demo.team.svc:9000/x"
    assert request_url(mcp_server(url="https://Tools.example.com:8443/mcp")) == "https://Tools.example.com:8443/mcp"


def test_a_server_that_breaks_a_rule_is_broken_and_says_in_which_field() -> None:
    servers = DeclaredServers(lambda key, before, after: None)
    metadata = {"namespace": "team", "name": "demo", "uid": "u", "resourceVersion": "1"}
    servers.update({"metadata": metadata, "spec": {"url": "ftp://a.example/"}})
    broken = servers.server(ServerKey("team", "demo"))
    assert isinstance(broken, BrokenResource)
    assert "spec.url" in broken.problem


def test_a_rule_that_cannot_be_read_is_told_once_and_left_out(caplog: pytest.LogCaptureFixture) -> None:
    policies = DeclaredResources(TOOL_POLICIES, ToolPolicy, lambda key, before, after: None)
    metadata = {"namespace": "team", "name": "strict", "uid": "u", "resourceVersion": "1"}
    for version in ("1", "1", "2"):
        policies.update({"metadata": {**metadata, "resourceVersion": version}, "spec": {"rules": 5}})
    assert list(policies.broken_resources()) == [ServerKey("team", "strict")]
    assert policies.valid() == []


@pytest.mark.parametrize("refusal", [Invalid("spec: no such key: url evaluating rule"), NotFound("gone")])
async def test_a_broken_resource_whose_status_is_refused_is_one_that_cannot_be_read(refusal: Exception) -> None:
    class Refusing:
        async def apply(self, *what: object, **how: object) -> None:
            raise refusal

    servers = DeclaredServers(lambda key, before, after: None)
    metadata = {"namespace": "team", "name": "demo", "uid": "u", "resourceVersion": "1"}
    servers.update({"metadata": metadata, "spec": {"url": 5}})
    unused = cast("Any", None)
    parts = KubePlatformParts(
        servers=servers,
        owned=unused,
        resolver=unused,
        credential_store=unused,
        events=unused,
        pods=unused,
        installation=unused,
    )
    platform = KubePlatform(cast("Kube", Refusing()), parts)
    with pytest.raises(UnreadableServer, match=r"spec\.url"):
        await platform.get(ServerKey("team", "demo"))


def test_a_policy_and_a_server_with_too_many_values_are_broken_and_the_policy_denies() -> None:
    metadata = {"namespace": "team", "name": "a", "uid": "u", "resourceVersion": "1", "generation": 2}
    item = {"metadata": metadata, EXCESS_MEMBER: "more than 50,000 values"}
    servers = DeclaredServers(lambda key, before, after: None)
    servers.update(item)
    policies = DeclaredResources(TOOL_POLICIES, ToolPolicy, lambda key, before, after: None)
    policies.update(item)
    server, (policy,) = servers.server(ServerKey("team", "a")), policies.broken_resources().values()
    assert isinstance(server, BrokenResource)
    assert server.problem == policy.problem == "the resource is too large to be read: it has more than 50,000 values"
    (rule,) = deny_all_policy(policy.item).spec.rules
    assert (rule.action, rule.tools) == ("Deny", ["*"])
