"""IP addresses: their normal form, and the networks by which they are counted."""

from __future__ import annotations

import pytest

from fairlead_mcp.addresses import authority, client_of, listen_address, to_ipv4


@pytest.mark.parametrize(
    ("host", "written"),
    [("127.0.0.1", "127.0.0.1:80"), ("::1", "[::1]:80"), ("::", "[::]:80"), ("tools.svc", "tools.svc:80")],
)
def test_an_ipv6_address_before_a_port_stands_in_brackets(host: str, written: str) -> None:
    assert authority(host, 80) == written


@pytest.mark.parametrize(
    ("pod", "address"),
    [
        ((), "0.0.0.0"),
        (("10.244.0.7",), "0.0.0.0"),
        (("fd00:10:244::7",), "::"),
        (("10.244.0.7", "fd00:10:244::7"), "::"),
        (("fd00:10:244::7", "10.244.0.7"), "::"),
    ],
)
def test_a_pod_listens_on_every_address_of_the_families_that_it_has(pod: tuple[str, ...], address: str) -> None:
    assert listen_address(pod) == address


@pytest.mark.parametrize(
    ("peer", "address"),
    [
        ("::ffff:192.0.2.1", "192.0.2.1"),
        ("192.0.2.1", "192.0.2.1"),
        ("2001:db8::1", "2001:db8::1"),
        ("::1", "::1"),
        ("::ffff:c000:201", "::ffff:c000:201"),
        ("", ""),
    ],
)
def test_an_ipv4_peer_of_a_socket_of_both_families_has_its_ipv4_address(peer: str, address: str) -> None:
    assert to_ipv4(peer) == address


@pytest.mark.parametrize(
    ("address", "client"),
    [
        ("192.0.2.1", "192.0.2.1"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("2001:DB8:1:2::9", "2001:db8:1:2::/64"),
        ("2001:db8:1:3::9", "2001:db8:1:3::/64"),
        ("::1", "::1"),
        ("fe80::1%eth0", "fe80::1%eth0"),
        ("", ""),
        ("a:b", "a:b"),
    ],
)
def test_an_ipv6_client_is_its_network_of_64_bits(address: str, client: str) -> None:
    assert client_of(address) == client
