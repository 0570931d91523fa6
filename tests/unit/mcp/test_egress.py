"""Permitted addresses of servers: names and IP addresses, in a pod and on a laptop, also in deceptive notations."""

from __future__ import annotations

import asyncio

import pytest

from fairlead_mcp.addresses import service_namespace
from fairlead_mcp.egress import MAX_ADDRESSES, AddressNotAllowed, BadEgress, Egress, is_public_address, public_only
from fairlead_mcp.errors import ConnectFailed
from fairlead_mcp.http.dial import Address, Dialer, Resolve, Resolved, resolve_by_dns

POD = Egress.of(
    ["*.tools.svc", "192.0.2.0/24"], ["10.96.0.0/12"], confined=True, environ={"KUBERNETES_SERVICE_HOST": "10.0.0.1"}
)
LAPTOP = Egress.of([], [], confined=False)


async def judge(
    egress: Egress,
    host: str,
    *addresses: str,
    namespace: str = "team",
    alias: str = "",
    known_as: str = "",
    port: int = 80,
) -> str:
    """The address to connect to, or the refusal. `alias`: canonical name; `known_as`: name of the addresses."""

    async def name_of(address: str) -> str:
        return known_as

    async def resolve(name: str, port: int) -> list[Address]:
        if name in ("kubernetes.default.svc", "api.example.com"):
            return [("10.0.0.2" if name.endswith("svc") else "198.51.100.9", port)]
        return Resolved([(address, port) for address in addresses], alias)

    try:
        return ", ".join(address for address, _ in await egress.guard(resolve, namespace, name_of)(host, port))
    except ConnectFailed as error:
        return f"{error.reason}: {error}"


async def nameless(address: str) -> str:
    """Reverse lookup that finds no name."""
    return ""


DENIED_ADDRESSES = {
    "127.0.0.1": "this machine",
    "127.8.9.10": "this machine",
    "::1": "this machine",
    "0.0.0.0": "this machine",
    "::": "this machine",
    "::ffff:127.0.0.1": "this machine",
    "::ffff:7f00:1": "this machine",
    "::127.0.0.1": "this machine",
    "64:ff9b::7f00:1": "this machine",
    "2002:7f00:1::": "this machine",
    "169.254.169.254": "link-local",
    "169.254.0.1": "link-local",
    "::ffff:169.254.169.254": "link-local",
    "64:ff9b::a9fe:a9fe": "link-local",
    "fe80::1": "link-local",
    "fe80::1%eth0": "link-local",
    "fd00:ec2::254": "metadata",
    "fd20:ce::254": "metadata",
    "100.100.100.200": "metadata",
    "168.63.129.16": "metadata",
    "192.0.0.192": "metadata",
    "224.0.0.1": "multicast",
    "ff02::1": "multicast",
    "fd00:ec2::23": "metadata",
    "fd00:ec2::253": "metadata",
    "fd00:c1::a9fe:a9fe": "metadata",
    "fd00:42::42": "metadata",
    "::ffff:0:169.254.169.254": "link-local",
    "::ffff:0:7f00:1": "this machine",
    "::ffff:0:10.0.0.1": "the API server",
    "2002:a9fe:a9fe::1": "link-local",
    "64:ff9b::10.0.0.1": "the API server",
    "64:ff9b:1::a9fe:a9fe": "link-local",
    "64:ff9b:1:a9fe:a9:fe00::": "link-local",
    "64:ff9b:1:a9:fe:a9fe::": "link-local",
    "64:ff9b:1:0:a9:fea9:fe00::": "link-local",
    "64:ff9b:1:ffff::10.96.0.10": "inside the cluster",
    "64:ff9b:1::127.0.0.1": "this machine",
    "2001:0:a9fe:a9fe::": "link-local",
    "2001:0:cb00:7107:0:0:5601:5601": "link-local",
    "fe80::5efe:203.0.113.7": "link-local",
    "2001:db8::5efe:169.254.169.254": "link-local",
    "2001:db8::200:5efe:169.254.169.254": "link-local",
    "10.0.0.1": "the API server",
    "::ffff:10.0.0.1": "the API server",
    "10.0.0.2": "the API server",
    "10.96.0.10": "inside the cluster",
    "10.100.3.4": "inside the cluster",
    "not an address": "cannot be parsed",
}


@pytest.mark.parametrize("address", DENIED_ADDRESSES)
async def test_a_name_that_resolves_to_where_no_server_may_be_is_refused(address: str) -> None:
    refusal = await judge(POD, "innocent.example.com", address)
    assert refusal.startswith("AddressNotAllowed: ")
    assert DENIED_ADDRESSES[address] in refusal


async def test_names_that_resolve_to_both_are_connected_at_the_allowed_address() -> None:
    assert await judge(POD, "rebind.example.com", "127.0.0.1", "203.0.113.7") == "203.0.113.7"


@pytest.mark.parametrize("host", ["203.0.113.7", "2001:db8::1", "192.168.1.20", "172.16.0.9"])
async def test_other_addresses_are_allowed_private_ones_too(host: str) -> None:
    assert await judge(POD, host, host) == host


@pytest.mark.parametrize(
    ("host", "why"),
    [
        ("grafana.monitoring.svc", "a Service of namespace monitoring"),
        ("grafana.monitoring.svc.", "a Service of namespace monitoring"),
        ("GRAFANA.Monitoring.SVC.cluster.local", "a Service of namespace monitoring"),
        ("pod-0.db.other.svc.cluster.local", "a Service of namespace other"),
        ("kubernetes.default.svc", "a Service of namespace default"),
        ("10-1-2-3.other.pod.cluster.local", "a Service of namespace other"),
        ("gateway-ops", "a name inside the cluster (this namespace's Service is gateway-ops.team.svc), which"),
        ("localhost", "a name inside the cluster, which"),
        ("demo.svc", "a name inside the cluster"),
        ("anything.cluster.local", "a name inside the cluster"),
        ("tools.svc.team.svc", "a name inside the cluster"),
        ("a.team.svc.other.svc", "a name inside the cluster"),
    ],
)
async def test_services_of_other_namespaces_are_denied_by_their_names(host: str, why: str) -> None:
    assert why in await judge(POD, host, "203.0.113.7")


async def test_services_of_its_own_namespace_and_listed_ones_are_fine_but_not_wherever_they_lead() -> None:
    assert await judge(POD, "demo.team.svc", "10.96.7.7") == "10.96.7.7"
    assert await judge(POD, "search.tools.svc", "10.96.7.8") == "10.96.7.8"
    assert "link-local" in await judge(POD, "demo.team.svc", "169.254.169.254")
    assert "the API server" in await judge(POD, "search.tools.svc", "10.0.0.1")
    assert "a Service of namespace tools" in await judge(POD, "search.tools.svc.example", "10.96.7.8")


@pytest.mark.parametrize("host", ["10.98.0.7", "innocent.example.com"])
@pytest.mark.parametrize(
    ("known_as", "why"),
    [
        ("grafana.monitoring.svc.cluster.local", "a Service of namespace monitoring"),
        ("10-98-0-7.db.other.svc.example.internal", "a Service of namespace other"),
        ("Kubernetes.Default.SVC.cluster.local", "a Service of namespace default"),
        ("something.cluster.local", "a name inside the cluster"),
    ],
)
async def test_a_service_of_another_namespace_is_denied_by_its_address_too(host: str, known_as: str, why: str) -> None:
    assert f"{host} leads to {why}" in await judge(POD, host, "198.51.100.7", known_as=known_as)


async def test_addresses_that_no_other_namespace_has_are_fine_and_so_are_listed_ones() -> None:
    for known_as in ("", "demo.team.svc.cluster.local", "ip-10-98-0-7.ec2.internal", "fairlead-gateway-0"):
        assert await judge(POD, "10.98.0.7", "198.51.100.7", known_as=known_as) == "198.51.100.7"
    others = "grafana.monitoring.svc.cluster.local"
    assert await judge(POD, "192.0.2.9", "192.0.2.9", known_as=others) == "192.0.2.9"
    assert await judge(POD, "search.tools.svc", "198.51.100.7", known_as=others) == "198.51.100.7"
    assert await judge(LAPTOP, "10.98.0.7", "10.98.0.7", known_as=others) == "10.98.0.7"


async def test_a_name_with_thousands_of_addresses_takes_few_reverse_lookups() -> None:
    named: list[str] = []

    async def name_of(address: str) -> str:
        named.append(address)
        return ""

    async def resolve(name: str, port: int) -> list[Address]:
        many = [(f"203.{number >> 8}.{number & 255}.7", port) for number in range(5000)]
        return many if name == "many.example.com." else []

    good = await POD.guard(resolve, "team", name_of)("many.example.com", 443)
    assert len(good) == len(named) == MAX_ADDRESSES


async def test_a_service_of_its_own_keeps_all_its_pods_however_many() -> None:
    async def resolve(name: str, port: int) -> list[Address]:
        pods = [(f"10.97.{number >> 8}.{number & 255}", port) for number in range(1000)]
        return pods if name == "demo.team.svc" else []

    assert len(await POD.guard(resolve, "team", nameless)("demo.team.svc", 80)) == 1000


async def test_listed_networks_are_allowed_whatever_they_are() -> None:
    listed = Egress.of(["127.0.0.0/8", "169.254.10.0/24"], [], confined=True, environ={})
    assert await judge(listed, "127.0.0.1", "127.0.0.1") == "127.0.0.1"
    assert await judge(listed, "a.example.com", "::ffff:127.0.0.1") == "::ffff:127.0.0.1"
    assert await judge(listed, "169.254.10.1", "169.254.10.1") == "169.254.10.1"
    assert "link-local" in await judge(listed, "169.254.169.254", "169.254.169.254")


@pytest.mark.parametrize("host", ["2130706433", "0x7f000001", "017700000001", "127.1", "0x7f.1", "127.0.0.1."])
async def test_ways_to_write_loopback_that_the_system_understands_are_judged_by_what_they_become(host: str) -> None:
    """Uses the system's own resolver. Without the guard, most of these connect to this machine."""
    try:
        resolved = await resolve_by_dns(host, 80)
    except OSError:
        return  # this system's resolver does not support the notation
    assert {address for address, _ in resolved} == {"127.0.0.1"}
    with pytest.raises((ConnectFailed, OSError), match=r"of this machine|a name inside the cluster|not known"):
        await POD.guard(resolve_by_dns, "team", nameless)(host, 80)


async def test_in_a_pod_a_name_is_not_tried_as_a_service_by_the_search_list_of_its_resolver() -> None:
    lookups: list[str] = []

    async def resolve(host: str, port: int) -> list[Address]:
        if host == "kubernetes.default.svc":
            raise OSError("not here")
        lookups.append(host)
        return [("203.0.113.7", port)]

    for host in ("grafana.monitoring", "tools.example.com", "demo.team.svc", "203.0.113.7", "absolute.example."):
        await POD.guard(resolve, "team", nameless)(host, 80)
    await LAPTOP.guard(resolve, "team")("grafana.monitoring", 80)
    assert lookups == [
        "grafana.monitoring.",
        "tools.example.com.",
        "demo.team.svc",
        "203.0.113.7",
        "absolute.example.",
        "grafana.monitoring",
    ]


async def test_link_local_and_metadata_addresses_alone_are_denied_on_a_laptop() -> None:
    for host, address in [
        ("localhost", "127.0.0.1"),
        ("box", "192.168.1.2"),
        ("0.0.0.0", "0.0.0.0"),
        ("a.b.svc", "::1"),
    ]:
        assert await judge(LAPTOP, host, address) == address
    for address in ("169.254.169.254", "fe80::1", "fd00:ec2::254"):
        told = await judge(LAPTOP, "a.example.com", address)
        assert told.endswith(", which is not allowed for servers; to allow it, set FAIRLEAD_ALLOWED_URLS")


async def test_the_address_that_was_looked_at_is_the_one_that_is_connected_to() -> None:
    """DNS rebinding: a name that resolves to a harmless address first, and to loopback the next time, is resolved only
    once. Without the guard in the dialer's resolver, the second connection would go to 127.0.0.1.
    """
    answers = [[("203.0.113.7", 9)], [("127.0.0.1", 9)]]
    resolutions = 0

    async def rebind(host: str, port: int) -> list[Address]:
        nonlocal resolutions
        if host == "kubernetes.default.svc":
            raise OSError("not here")
        resolutions += 1
        return answers[min(resolutions, 2) - 1]

    guarded = POD.guard(rebind, "team", nameless)
    assert await guarded("rebind.example.com", 9) == [("203.0.113.7", 9)]
    dialer = Dialer("rebind.example.com", 9, None, None, guarded, 1.0)
    with pytest.raises(ConnectFailed) as refused:
        await dialer.connect(lambda: pytest.fail("connected"))
    assert (refused.value.reason, resolutions) == ("AddressNotAllowed", 2)


@pytest.mark.parametrize(
    ("allowed", "denied"), [(["http://a/"], []), (["10.0.0.0/33"], []), ([], ["*.svc"]), (["a:80"], [])]
)
def test_an_entry_that_is_nothing_is_refused_at_the_start(allowed: list[str], denied: list[str]) -> None:
    with pytest.raises(BadEgress, match=r"FAIRLEAD_(ALLOWED_URLS|DENIED_NETWORKS): "):
        Egress.of(allowed, denied, confined=True)


def test_the_namespace_of_a_name() -> None:
    assert service_namespace("a.b.svc") == "b"
    assert service_namespace("tools.example.com") is None
    assert service_namespace("svc.example.com") is None
    assert service_namespace("x.pod.example.com") is None


OPEN_POD = Egress.of(["*.tools.svc"], [], confined=True, environ={"KUBERNETES_SERVICE_HOST": "api.example.com"})
"""Pod without settings about networks, so that the defaults apply."""


@pytest.mark.parametrize(
    ("host", "alias", "address", "why"),
    [
        ("mine.team.svc", "db.other.svc.cluster.local", "10.98.0.7", "a Service of namespace other"),
        ("mine.team.svc", "kubernetes.default.svc.cluster.local", "10.0.0.2", "a Service of namespace default"),
        ("mine.team.svc", "innocent.example.com", "10.0.0.2", "the API server"),
        ("innocent.example.com", "db.other.svc.cluster.local", "10.98.0.7", "a Service of namespace other"),
        ("10.0.0.2", "", "10.0.0.2", "the API server"),
        ("198.51.100.9", "", "198.51.100.9", "the API server"),
    ],
)
async def test_an_alias_counts_as_what_it_stands_for(host: str, alias: str, address: str, why: str) -> None:
    """An `ExternalName` Service of a tenant. Without the check of `Resolved.canonical`, all names except the API
    server's would be connected to.
    """
    refusal = await judge(OPEN_POD, host, address, alias=alias)
    assert refusal.startswith("AddressNotAllowed: ")
    assert why in refusal


@pytest.mark.parametrize(
    ("host", "alias"),
    [
        ("mine.team.svc", "mine.team.svc.cluster.local"),
        ("mine.team.svc", "other.team.svc.cluster.local"),
        ("mine.team.svc", "tools.example.com"),
        ("www.example.com", "cdn.example.net"),
        ("shared.tools.svc", "db.other.svc.cluster.local"),
    ],
)
async def test_an_alias_for_what_may_be_connected_to_is_fine(host: str, alias: str) -> None:
    assert await judge(OPEN_POD, host, "10.98.0.7", alias=alias) == "10.98.0.7"


async def test_an_alias_out_of_the_cluster_takes_the_trust_in_a_service_away() -> None:
    assert await judge(POD, "mine.team.svc", "10.98.0.7") == "10.98.0.7"
    assert "inside the cluster" in await judge(POD, "mine.team.svc", "10.98.0.7", alias="x.example.com")


async def test_the_api_server_is_reached_where_a_setting_allows_its_address() -> None:
    allowed = Egress.of(["10.0.0.0/24"], [], confined=True, environ={"KUBERNETES_SERVICE_HOST": "10.0.0.1"})
    assert await judge(allowed, "10.0.0.1", "10.0.0.1") == "10.0.0.1"


async def test_the_resolver_tells_what_a_name_stands_for() -> None:
    resolved = await resolve_by_dns("localhost", 80)
    assert isinstance(resolved, Resolved)
    assert resolved.canonical == "localhost"


@pytest.mark.parametrize("port", [10250, 10255, 10249, 10256, 10257, 10259, 2379, 2380])
@pytest.mark.parametrize("host", ["192.168.1.20", "2001:db8::1", "node.example.com", "mine.team.svc"])
async def test_ports_of_kubernetes_nodes_are_refused_at_any_address(host: str, port: int) -> None:
    """The addresses of nodes are not known, and may be public."""
    address = "192.168.1.20" if "." in host else host
    for egress, refused in ((POD, True), (OPEN_POD, True), (LAPTOP, False)):
        assert (await judge(egress, host, address, port=port) != address) is refused
    refusal = await judge(POD, host, address, port=port)
    assert refusal.startswith("AddressNotAllowed: ")


async def test_a_port_of_nodes_is_connected_to_where_a_setting_names_the_address_or_the_host() -> None:
    assert await judge(POD, "192.0.2.7", "192.0.2.7", port=10250) == "192.0.2.7"
    assert await judge(POD, "search.tools.svc", "10.98.0.7", port=10250) == "10.98.0.7"


@pytest.mark.parametrize(
    "address", ["64:ff9b::203.0.113.7", "64:ff9b:1::203.0.113.7", "::ffff:0:203.0.113.7", "2001:db8::5efe:203.0.113.7"]
)
async def test_an_address_that_stands_for_one_that_is_fine_is_fine(address: str) -> None:
    assert await judge(OPEN_POD, address, address) == address


async def test_a_setting_for_an_address_does_not_lift_the_rule_on_what_it_only_may_stand_for() -> None:
    """With one prefix length, this address stands for 192.0.2.1, which is allowed; with another, for
    169.254.169.254."""
    assert await judge(POD, "a.example.com", "64:ff9b:1:c000:2:100:a9fe:a9fe") != "64:ff9b:1:c000:2:100:a9fe:a9fe"


PUBLIC = ("1.1.1.1", "160.79.104.10", "2606:4700::1111", "64:ff9b::101:101", "::ffff:1.1.1.1", "2a00:1450::5%eth0")
SPECIAL = (
    "0.0.0.0",
    "10.1.2.3",
    "100.64.0.1",
    "100.100.100.200",
    "127.0.0.1",
    "127.255.0.1",
    "168.63.129.16",
    "169.254.169.254",
    "172.16.0.1",
    "192.0.0.192",
    "192.0.2.1",
    "192.88.99.1",
    "192.168.0.1",
    "198.18.0.1",
    "198.51.100.1",
    "203.0.113.1",
    "224.0.0.1",
    "239.255.255.250",
    "240.0.0.1",
    "255.255.255.255",
    "::",
    "::1",
    "::ffff:127.0.0.1",
    "::ffff:10.0.0.1",
    "::ffff:0:7f00:1",
    "::7f00:1",
    "64:ff9b::7f00:1",
    "64:ff9b::a9fe:a9fe",
    "64:ff9b:1::a00:1",
    "100::1",
    "2001:db8::1",
    "2001::1",
    "2002:7f00:1::1",
    "2002:a00:1::1",
    "3fff::1",
    "4000::1",
    "5f00::1",
    "fc00::1",
    "fd00:ec2::254",
    "fe80::1",
    "fe80::1%eth0",
    "fec0::1",
    "ff02::1",
    "ff0e::1",
    "2606:4700:0:0:0:5efe:7f00:1",
)


@pytest.mark.parametrize("address", PUBLIC)
async def test_an_address_of_the_internet_is_public(address: str) -> None:
    assert is_public_address(address)
    assert await public_only(resolver("1.1.1.1", "127.0.0.1", address))("a.example", 443) == [
        ("1.1.1.1", 443),
        (address, 443),
    ]


@pytest.mark.parametrize("address", SPECIAL)
async def test_an_address_of_special_use_is_never_public(address: str) -> None:
    assert not is_public_address(address)
    with pytest.raises(AddressNotAllowed, match=r"a\.example leads to an address that is not public"):
        await public_only(resolver(address))("a.example", 443)


async def test_a_name_without_an_address_stays_one() -> None:
    assert await public_only(resolver())("a.example", 443) == []


async def test_the_dialer_connects_to_no_address_that_is_not_public() -> None:
    """DNS rebinding: the name resolves to a public address first, and to this machine when it is dialled."""
    answers = [["1.1.1.1"], ["127.0.0.1"]]

    async def rebind(host: str, port: int) -> list[Address]:
        return [(address, port) for address in answers.pop(0)]

    guarded = public_only(rebind)
    assert await guarded("rebind.example", 443) == [("1.1.1.1", 443)]
    server = await asyncio.start_server(lambda reader, writer: None, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        dialer = Dialer("rebind.example", port, None, None, guarded, 5.0)
        with pytest.raises(AddressNotAllowed):
            await dialer.connect(asyncio.Protocol)
    for host in ("127.0.0.1", "localhost", "2130706433", "0x7f.1", "::1"):
        with pytest.raises(ConnectFailed):
            await Dialer(host, 443, None, None, public_only(resolve_by_dns), 5.0).connect(asyncio.Protocol)


def resolver(*addresses: str) -> Resolve:
    async def resolve(host: str, port: int) -> list[Address]:
        return [(address, port) for address in addresses]

    return resolve
