"""The McpServer model: defaults, fields that depend on the source, reading and writing."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from fairlead_api.meta import ServerKey
from fairlead_api.v1alpha1.mcpserver import McpServer, McpServerSpec, McpServerStatus

URL = {"url": "https://tools.example.com/mcp"}
IMAGE = {"image": {"name": "ghcr.io/example/server:1.2.3"}}
PACKAGE = {"package": {"registry": "npm", "name": "@scope/server", "version": "1.2.3"}}
COMMAND = {"command": ["npx", "server"]}


def spec(**members: Any) -> McpServerSpec:
    return McpServerSpec.model_validate(members)


@pytest.mark.parametrize(
    ("source", "kind", "transport", "trusted"),
    [
        (URL, "url", "streamable-http", False),
        (IMAGE, "image", "streamable-http", True),
        (PACKAGE, "package", "stdio", True),
        (COMMAND, "command", "stdio", True),
    ],
)
def test_the_source_decides_transport_and_trust(
    source: dict[str, Any], kind: str, transport: str, trusted: bool
) -> None:
    read = spec(**source)

    assert (read.source_kind, read.effective_transport, read.trusts_annotations) == (kind, transport, trusted)


def test_the_name_of_an_argument_has_at_most_the_64_characters_that_anthropic_takes() -> None:
    def shaped(name: str) -> McpServerSpec:
        return spec(**URL, tools=[{"name": "t", "arguments": {"q": {"as": name}}}])

    assert shaped("a" * 64).tools[0].arguments["q"].shown_as == "a" * 64
    with pytest.raises(ValidationError, match="at most 64 characters"):
        shaped("a" * 65)


def test_trust_can_be_given_and_taken_away() -> None:
    assert spec(**URL, trustAnnotations=True).trusts_annotations
    assert not spec(**IMAGE, trustAnnotations=False).trusts_annotations


@pytest.mark.parametrize(("members", "path"), [({}, "/mcp"), ({"transport": "sse"}, "/sse"), ({"path": "/x"}, "/x")])
def test_an_image_has_the_usual_path_of_its_transport(members: dict[str, Any], path: str) -> None:
    assert spec(image={**IMAGE["image"], **members}).effective_path == path


def test_an_image_has_one_replica_on_port_8080_unless_it_says_otherwise() -> None:
    assert (spec(**IMAGE).effective_port, spec(**IMAGE).effective_replicas) == (8080, 1)
    chosen = spec(image={"name": "x", "port": 9}, replicas=0)
    assert (chosen.effective_port, chosen.effective_replicas) == (9, 0)


@pytest.mark.parametrize(
    "url",
    [
        "http://a",
        "https://tools.example.com:8443/mcp?tenant=a&b=%20",
        "http://10.0.0.1:80/",
        "http://[::1]:8000/mcp",
        "http://a:65535/mcp",
        "https://a_b.svc/x~y",
    ],
)
def test_a_plain_http_url_is_taken(url: str) -> None:
    assert spec(url=url).url == url


@pytest.mark.parametrize(
    "url",
    [
        "ftp://a/b",
        "https://",
        "https://u@a/b",
        "https://u:p@a/b",
        "https://a/b#c",
        "https://a b/c",
        "//a/b",
        "https://a/b c",
        "https://a/b\n",
        "https://a:/b",
        "https://a:999999/b",
        "https://a:65536/b",
        "https://a:0/b",
        "HTTPS://a/b",
        "https://a\\b/c",
    ],
)
def test_any_other_url_is_refused(url: str) -> None:
    with pytest.raises(ValidationError, match="must be an http or https URL"):
        spec(url=url)


@pytest.mark.parametrize(
    "cidr",
    ["0.0.0.0/0", "10.1.0.0/16", "203.0.113.7/32", "::/0", "2001:db8::/32", "fd00:ec2::254/128", "1:2::8/9"],
)
def test_a_network_of_egress_is_taken(cidr: str) -> None:
    assert spec(**IMAGE, network={"egress": {"rules": [{"cidrs": [cidr]}]}}).network is not None


@pytest.mark.parametrize(
    "cidr", ["10.0.0.300/8", "10.0.0.0/33", "10.09.0.0/16", "10.0.0.0", "10.0/8", "a::b::c/32", "2001:db8::/129", ":/0"]
)
def test_invalid_networks_are_refused_in_egress(cidr: str) -> None:
    with pytest.raises(ValidationError, match="must be a network with its prefix length"):
        spec(**IMAGE, network={"egress": {"rules": [{"cidrs": [cidr]}]}})


@pytest.mark.parametrize(("prefix", "fits"), [("a", True), ("a-b_c1", True), ("1a", True)])
def test_a_prefix_of_the_right_form_is_taken(prefix: str, fits: bool) -> None:
    assert spec(**URL, prefix=prefix).prefix == prefix


@pytest.mark.parametrize("prefix", ["a__b", "-a", "a-", "A", "a.b", "a/b", "a_", "ä", "a\n"])
def test_any_other_prefix_is_refused(prefix: str) -> None:
    with pytest.raises(ValidationError, match="must consist of lower-case letters"):
        spec(**URL, prefix=prefix)


@pytest.mark.parametrize("version", ["2026.10.19", "1.0.0-rc.1", "1!2.0", "0.6.2+build5"])
def test_an_exact_version_is_taken(version: str) -> None:
    assert spec(package={"registry": "pypi", "name": "a", "version": version}).package is not None


@pytest.mark.parametrize("version", ["latest", "^1.0", ">=1", "*", "1.0 || 2.0", "v1", "1.2.3 "])
def test_a_tag_or_a_range_is_not_a_version(version: str) -> None:
    with pytest.raises(ValidationError, match="must be one exact version"):
        spec(package={"registry": "pypi", "name": "a", "version": version})


@pytest.mark.parametrize("name", ["--index-url=x", "-a", "a b", "a==1", "git+https://a/b", "../a", "@a", "@a/"])
def test_text_that_an_installer_could_take_for_an_option_is_not_a_package_name(name: str) -> None:
    with pytest.raises(ValidationError, match="must be the name of one package"):
        spec(package={"registry": "npm", "name": name, "version": "1.0.0"})


def test_a_package_without_a_version_is_refused() -> None:
    with pytest.raises(ValidationError, match="version"):
        spec(package={"registry": "pypi", "name": "mcp-server-time"})


def test_all_rules_that_are_broken_are_named_at_once() -> None:
    with pytest.raises(ValidationError) as caught:
        spec(remote={}, env=[], replicas=1)

    assert [path for path, _ in caught.value.errors()[0]["ctx"]["violations"]] == ["", ".remote", ""]


def test_a_null_member_is_an_absent_one() -> None:
    assert spec(**URL, limits=None, prefix=None) == spec(**URL)


def test_a_reader_passes_over_members_that_it_does_not_know() -> None:
    """An operator has to survive resources that were written for a newer operator."""
    server = McpServer.model_validate({"metadata": {"name": "a", "namespace": "b"}, "spec": {**URL, "newer": 1}})

    assert server.key == ServerKey("b", "a")


def test_a_resource_is_written_with_wire_names_and_times_in_utc() -> None:
    status = McpServerStatus.model_validate(
        {
            "observedGeneration": 3,
            "serverInfo": {"name": "docs", "version": "1"},
            "catalog": {"name": "c", "hash": "h", "updatedAt": "2026-01-01T02:00:00.123+02:00"},
            "conditions": [
                {"type": "Ready", "status": "True", "reason": "Verified", "lastTransitionTime": "2026-01-01T00:00:00Z"}
            ],
        }
    )

    written = status.to_wire()

    assert written["catalog"]["updatedAt"] == "2026-01-01T00:00:00Z"
    assert written["observedGeneration"] == 3
    assert McpServerStatus.model_validate(written).to_wire() == written
    ready = status.condition("Ready")
    assert ready is not None
    assert ready.status == "True"
    assert status.condition("Verified") is None


def test_a_credential_is_found_behind_whichever_way_it_is_sent() -> None:
    bearer = spec(**URL, auth={"bearer": {"secretRef": {"name": "a"}}}).auth
    header = spec(**URL, auth={"header": {"name": "X-API-Key", "secretRef": {"name": "b", "key": "k"}}}).auth

    assert bearer is not None
    assert header is not None
    assert bearer.static_value is not None
    assert header.static_value is not None
    assert (bearer.static_value.secret_ref.name, bearer.static_value.secret_ref.key) == ("a", "token")
    assert (header.static_value.secret_ref.name, header.static_value.secret_ref.key) == ("b", "k")
    assert bearer.grant is None
