"""The notations of servers, and the server that each describes."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import Raw

from fairlead_api.documents.catalog import ChildEndpoint, Credential, EventsEndpoint, HttpEndpoint
from fairlead_api.load import load_text
from fairlead_client.servers import BadServer, Server, read_declarations
from fairlead_client.tools import list_tools

ENVIRON = {"TOKEN": "t0", "UV_INDEX_URL": "there", "https_proxy": "p", "SECRET": "no"}


def only_server(server: Any) -> Any:
    servers = read_declarations([server], ENVIRON)
    assert len(servers) == 1
    return servers[0]


def test_a_url_is_streamable_http_unless_it_is_said_to_be_sse() -> None:
    server = only_server(Server(name="My Tools", url="https://x.example/mcp", headers={"X": "1"}, api_key="k"))
    assert (server.name, server.prefix) == ("My Tools", "my-tools")
    assert server.endpoint == HttpEndpoint(url="https://x.example/mcp")
    assert server.credential == Credential(headers={"X": "1", "Authorization": "Bearer k"})
    assert not server.trusted
    events = only_server(
        Server(name="s", url="http://x.example/sse", transport="sse", prefix="p", trust_annotations=True)
    )
    assert (events.endpoint, events.prefix, events.trusted) == (EventsEndpoint(url="http://x.example/sse"), "p", True)


def test_a_command_is_a_program_with_its_arguments() -> None:
    server = only_server(Server(name="s", command="run it", args=["a b"], env={"A": "1"}, cwd="/x", prefix=""))
    assert server.endpoint == ChildEndpoint(command="run it", args=("a b",), cwd="/x")
    assert (server.credential.env, server.prefix, server.trusted) == ({"A": "1", "https_proxy": "p"}, "", True)
    assert only_server(Server(name="s", command=["a", "b"], args=["c"])).endpoint == ChildEndpoint(
        command="a", args=("b", "c")
    )


@pytest.mark.parametrize(
    ("server", "words"),
    [
        (Server(name="s", package="pypi:a-b==1.2"), ["tool", "run", "--from", "a-b==1.2", "a-b"]),
        (
            Server(name="s", package="pypi:a@1.2", executable="x", args=["-v"]),
            ["tool", "run", "--from", "a==1.2", "x", "-v"],
        ),
        (Server(name="s", package="npm:@org/a@1.2.3", args=["d"]), ["--yes", "@org/a@1.2.3", "d"]),
        (Server(name="s", package="npm:a@1.2.3", executable="x"), ["--yes", "--package=a@1.2.3", "--", "x"]),
    ],
)
def test_a_package_is_fetched_and_run_in_one_exact_version(server: Server, words: list[str]) -> None:
    server_entry = only_server(server)
    assert server_entry.endpoint.command.endswith("uv" if "pypi" in str(server.package) else "npx")
    assert list(server_entry.endpoint.args) == words
    own = {"UV_INDEX_URL": "there"} if "pypi" in str(server.package) else {}
    assert server_entry.credential.env == {**own, "https_proxy": "p"}


def test_the_content_of_an_mcp_json_is_taken_with_its_references_filled_in() -> None:
    content = {
        "mcpServers": {
            "Files": {"command": "npx", "args": ["x"], "env": {"T": "${TOKEN}"}},
            "remote": {"url": "https://x.example/mcp", "apiKey": "${TOKEN}"},
            "off": {"command": "y", "disabled": True},
        }
    }
    files, remote = read_declarations(content, ENVIRON)
    env = {"T": "t0", "https_proxy": "p"}
    assert (files.name, files.prefix, files.credential.env) == ("Files", "files", env)
    assert remote.credential.headers == {"Authorization": "Bearer t0"}


def test_the_entries_of_a_list_may_be_mappings_with_an_id() -> None:
    servers = read_declarations(
        [{"id": "files", "transport": "stdio", "command": "npx"}, {"name": "r", "url": "http://x/mcp"}]
    )
    assert [server.name for server in servers] == ["files", "r"]


MANIFEST = """
apiVersion: fairlead.dev/v1alpha1
kind: McpServer
metadata: {name: tools}
spec:
  url: https://x.example/mcp
  prefix: t
  trustAnnotations: true
  tools:
  - {name: a, enabled: false}
  - {name: b, description: other}
"""


def test_a_manifest_is_taken_as_resource_and_as_mapping() -> None:
    import yaml

    resource = load_text(MANIFEST).resources[0]
    as_resource = only_server(resource)
    as_mapping = only_server(yaml.safe_load(MANIFEST))
    assert as_resource == as_mapping
    assert (as_resource.name, as_resource.prefix, as_resource.trusted) == ("tools", "t", True)
    assert not as_resource.overrides["a"].enabled


def test_a_registry_offers_the_tools_that_a_list_of_a_client_names() -> None:
    server = only_server({"mcpServers": {"a": {"command": "x", "includeTools": ["read"]}}})
    tools = [Raw(b'{"name": "%s", "inputSchema": {"type": "object"}}' % name) for name in (b"read", b"write")]
    assert list(list_tools(server, tools)) == ["read"]


def manifest(**spec: Any) -> dict[str, Any]:
    return {"apiVersion": "fairlead.dev/v1alpha1", "kind": "McpServer", "metadata": {"name": "m"}, "spec": spec}


@pytest.mark.parametrize(
    ("servers", "sentence"),
    [
        ([Server(name="s")], "s: set exactly one of url, command and package"),
        ([Server(name="s", url="http://x/mcp", command="y")], "s: set exactly one of url, command and package"),
        ([Server(name="s", url="ftp://x")], "s.url: must be an http or https URL"),
        ([Server(name="s", url="http://x/mcp", prefix="a__b")], "s.prefix: must consist of"),
        ([Server(name="s", command="y", host_header="a b")], "s.host_header: "),
        ([Server(name="s", package="mcp-server-time")], "s.package: must be pypi:NAME==VERSION or npm:NAME@VERSION"),
        (
            [Server(name="s", url="http://x/mcp", api_key="k", headers={"authorization": "x"})],
            "s.api_key: headers already have Authorization, which api_key sets",
        ),
        ([Server(name="s", command="a"), Server(name="s", command="b")], "two servers have the name 's'"),
        (
            [Server(name="s", command="a"), Server(name="S", command="b")],
            "have the same prefix 's' of tool names: set prefix",
        ),
        ({"mcpServers": {"s": {"command": "a", "env": {"T": "${NOT_SET}"}}}}, "s.env.T: environment variable NOT_SET"),
        ({"mcpServers": {"s": {}}}, "s: needs either command"),
        ([{"command": "a"}], "name: is missing: each server of a list has a name, or an id"),
        ([manifest(image={"name": "x/y:1"})], "m: a server with image runs only on a cluster"),
        (
            [manifest(url="http://x/mcp", auth={"bearer": {"secretRef": {"name": "n", "key": "k"}}})],
            "m: refers to a Secret or ConfigMap, which only the operator can read",
        ),
        (
            {
                "mcpServers": {
                    "s": {
                        "url": "http://x/mcp",
                        "fairlead": {
                            "auth": {"clientCredentials": {"issuer": "https://a", "clientID": "c", "secret": "s"}}
                        },
                    }
                }
            },
            "s: auth obtains tokens, which only the gateway does",
        ),
        ([manifest(url="http://x/mcp", nonsense=1)], "m: spec.nonsense: unknown field"),
        ([7], "int is not a valid server"),
        ("mcp.json", "not the name of a file"),
    ],
)
def test_an_unusable_server_is_refused_with_what_to_change(servers: Any, sentence: str) -> None:
    with pytest.raises(BadServer) as caught:
        read_declarations(servers, ENVIRON)
    assert sentence in str(caught.value)


def test_keys_and_headers_do_not_show_when_a_server_is_printed() -> None:
    server = Server(name="s", url="http://x/mcp", api_key="hunter2", headers={"X": "hunter2"}, env={"E": "hunter2"})
    assert "hunter2" not in repr(server)
    assert "hunter2" not in repr(read_declarations([Server(name="s", url="http://x/mcp", api_key="hunter2")]))
