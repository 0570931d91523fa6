"""A LiteLLM proxy on the command line of `fairlead up`: the server that it becomes."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from fairlead_api.documents.catalog import HttpEndpoint
from fairlead_api.meta import ServerKey
from fairlead_api.v1alpha1.causes import Cause
from fairlead_cli.failure import Failure
from fairlead_cli.up.given_servers import WithServers
from fairlead_cli.up.litellm import litellm_server, mcp_endpoint
from fairlead_operator.local.sources import Sources
from fairlead_operator.ports import ConditionVerdict
from fairlead_operator.server.status import Facts, Verdicts, build_status

KEY = ServerKey("default", "litellm")
PROXY = "http://127.0.0.1:4000"


@pytest.mark.parametrize(
    ("url", "endpoint"),
    [
        (PROXY, f"{PROXY}/mcp"),
        (f"{PROXY}/", f"{PROXY}/mcp"),
        (f"{PROXY}/root", f"{PROXY}/root/mcp"),
        (f"{PROXY}/mcp/", f"{PROXY}/mcp"),
        (f"{PROXY}/mcp/stock", f"{PROXY}/mcp/stock"),
        (f"{PROXY}/stock/mcp", f"{PROXY}/stock/mcp"),
    ],
)
def test_the_endpoint_of_a_proxy_follows_from_its_address(url: str, endpoint: str) -> None:
    assert mcp_endpoint(url) == endpoint


def test_a_proxy_is_a_server_that_is_polled_and_whose_tools_are_tagged() -> None:
    declared = litellm_server(PROXY, {"FAIRLEAD_LITELLM_KEY": "sk-secret", "FAIRLEAD_LITELLM_INTERVAL": "2m"})
    discovery = declared.server.spec.discovery
    assert (declared.key, declared.server.spec.url) == (KEY, f"{PROXY}/mcp")
    assert (discovery.interval, discovery.tag_separator) == ("2m", "-")
    assert declared.credential.headers == {"Authorization": "Bearer sk-secret"}
    assert "sk-secret" not in repr(declared)


def test_a_proxy_without_a_key_is_asked_without_one_and_twice_a_minute() -> None:
    declared = litellm_server(PROXY, {"FAIRLEAD_LITELLM_KEY": "", "FAIRLEAD_LITELLM_INTERVAL": ""})
    assert declared.credential.headers == {}
    assert declared.server.spec.discovery.interval == "30s"


@pytest.mark.parametrize(
    ("url", "environ", "message"),
    [
        (PROXY, {"FAIRLEAD_LITELLM_INTERVAL": "1s"}, "FAIRLEAD_LITELLM_INTERVAL: must be a duration of at least 10s"),
        (PROXY, {"FAIRLEAD_LITELLM_KEY": "sk-a\r\nx: y"}, "FAIRLEAD_LITELLM_KEY contains characters"),
        ("127.0.0.1:4000", {}, "--litellm: '127.0.0.1:4000' must start with http:// or https://: --litellm http://127"),
        ("http://[::1", {}, "--litellm: 'http://[::1' is not a URL"),
    ],
)
def test_an_unusable_litellm_url_is_named_and_the_key_is_not_shown(
    url: str, environ: dict[str, str], message: str
) -> None:
    with pytest.raises(Failure) as refused:
        litellm_server(url, environ)
    assert str(refused.value).startswith(message)
    assert "sk-a" not in str(refused.value)


def test_the_proxy_stands_beside_the_servers_of_a_file_and_gives_way_to_its_namesake(tmp_path: Path) -> None:
    file = tmp_path / "mcp.json"
    file.write_text('{"mcpServers": {"other": {"command": "x"}}}')
    scanner = WithServers(Sources([file], {}), [litellm_server(PROXY, {})])
    first = scanner.scan()
    assert first is not None
    assert sorted(key.name for key in first.contents.servers) == ["litellm", "other"]
    assert scanner.scan() is None
    file.write_text('{"mcpServers": {"other": {"command": "x"}, "litellm": {"command": "own-server"}}}')
    second = scanner.scan()
    assert second is not None
    assert second.contents.servers[KEY].server.spec.command == ["own-server"]
    assert [str(problem) for problem in second.problems] == [
        (
            f"--litellm: this server is left out, because {file}:1 declares a server with the name litellm; "
            "a manifest gives it another name (metadata.name)"
        )
    ]


@pytest.mark.parametrize(
    ("cause", "advice"),
    [
        (Cause.CONNECTION_REFUSED, "(--litellm or FAIRLEAD_LITELLM_URL) and its port"),
        (Cause.NOT_FOUND, "(--litellm or FAIRLEAD_LITELLM_URL): its MCP endpoint is /mcp below it."),
        (Cause.UNAUTHORIZED, "Set FAIRLEAD_LITELLM_KEY to a key of the proxy"),
    ],
)
def test_advice_on_a_proxy_that_fails_names_the_option_that_the_user_gave(cause: Cause, advice: str) -> None:
    good = ConditionVerdict(True, Cause.ACCEPTED, "good")
    verdicts = Verdicts(good, good, good, ConditionVerdict(False, cause, "the proxy failed"))
    server = litellm_server(PROXY, {}).server
    facts = Facts(HttpEndpoint(url=f"{PROXY}/mcp"))
    ready = build_status(server, verdicts, facts, datetime(2026, 1, 2, tzinfo=UTC), "local").condition("Ready")
    assert ready is not None
    assert advice in ready.message
    assert "spec" not in ready.message
