"""`fairlead up` over a folder: real servers, a real client in both eras, and files that change meanwhile."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any, Final

import pytest
from mcp import Client
from mcp_types import TextContent

from commands import fairlead
from forkserver import FORKED
from ports import free_port
from toolservers import LEGACY_STDIO, SDK_STDIO, SDK_TOOLS, sdk_server
from upprocess import (
    DEMO,
    DEMO_TOOLS,
    PLAIN,
    PLAIN_TOOLS,
    Up,
    all_dead,
    children_of,
    command_of,
    fairlead_up,
    in_state,
    manifest,
)
from waiting import until_async

UNPROBED: dict[str, Any] = {"calibration": {"probe": "Never"}}
STEADY = manifest("demo", *DEMO, **UNPROBED)
"""The demo server without probes, which would disturb the test."""
ANY: Final = manifest("any", *PLAIN, **UNPROBED)
"""A server for tests that only list tools."""


async def tools_of(url: str, mode: str = "auto") -> list[str]:
    async with Client(url, mode=mode) as client:
        return sorted(tool.name for tool in (await client.list_tools()).tools)


async def await_list(up: Up, wanted: list[str]) -> None:
    """Wait until the list is as expected, because the gateway updates it just after the operator's report."""

    async def as_wanted() -> bool:
        return await tools_of(up.url) == wanted

    await until_async(f"{wanted} to be listed", as_wanted)


def with_prefix(prefix: str, names: list[str] | tuple[str, ...]) -> list[str]:
    return [f"{prefix}__{name}" for name in names]


async def test_a_folder_of_servers_is_listed_and_called_in_both_eras(tmp_path: Path) -> None:
    (tmp_path / "servers.yaml").write_text(STEADY + manifest("sdk", *FORKED, SDK_STDIO))
    async with fairlead_up(tmp_path, cwd=tmp_path) as up:
        await up.ready("default/demo")
        await await_list(up, [*with_prefix("demo", DEMO_TOOLS), *with_prefix("sdk", SDK_TOOLS)])
        modes: dict[Any, str] = {"auto": "2026-07-28", "legacy": "2025-11-25"}
        for mode, version in modes.items():
            async with Client(up.url, mode=mode) as client:
                assert client.protocol_version == version
                demo = await client.call_tool("demo__get_stock", {"item": "rope"})
                assert demo.structured_content == {"item": "rope", "pieces": 407}
                added = await client.call_tool("sdk__add", {"a": 2, "b": 3})
                assert added.structured_content == {"result": 5}
                failed = await client.call_tool("sdk__fail", {})
                assert failed.is_error


async def test_servers_of_every_kind_are_served_side_by_side(tmp_path: Path) -> None:
    async with sdk_server() as url:
        configuration = {
            "mcpServers": {
                "Remote One": {"url": url},
                "legacy": {"command": sys.executable, "args": [LEGACY_STDIO]},
            }
        }
        (tmp_path / "mcp.json").write_text(json.dumps(configuration))
        (tmp_path / "list.yaml").write_text(
            f"mcpServers:\n  - id: listed\n    transport: stdio\n    command: {sys.executable}\n"
            f"    args: ['{SDK_STDIO}']\n"
        )
        async with fairlead_up(tmp_path, cwd=tmp_path) as up:
            states = {"default/legacy", "default/listed", "default/remote-one"}
            while states:
                event = await up.event(lambda event: event.get("state") == "ready")
                states.discard(event["server"])
            for prefix in ("listed", "remote-one"):
                async with Client(up.url) as client:
                    result = await client.call_tool(f"{prefix}__add", {"a": 1, "b": 1})
                    assert result.structured_content == {"result": 2}


async def test_a_server_alone_is_served_under_its_own_path_with_its_own_names(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(ANY)
    async with fairlead_up(tmp_path, cwd=tmp_path) as up:
        await up.ready("default/any")
        await await_list(up, with_prefix("any", PLAIN_TOOLS))
        own = up.url.replace("/mcp", "/servers/default/any/mcp")
        assert await tools_of(own) == PLAIN_TOOLS


async def test_a_manifest_that_comes_changes_and_goes_is_followed(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(ANY)
    other = tmp_path / "b.yaml"
    async with fairlead_up(tmp_path, cwd=tmp_path) as up:
        await up.ready("default/any")

        other.write_text(manifest("sdk", *FORKED, SDK_STDIO))
        await up.ready("default/sdk")
        await await_list(up, [*with_prefix("any", PLAIN_TOOLS), *with_prefix("sdk", SDK_TOOLS)])

        other.write_text(manifest("sdk", *FORKED, SDK_STDIO, prefix="other"))
        await await_list(up, [*with_prefix("any", PLAIN_TOOLS), *with_prefix("other", SDK_TOOLS)])

        started = [pid for pid in children_of(up.pid) if SDK_STDIO in command_of(pid)]
        assert started
        other.unlink()
        await up.event(lambda event: (event["event"], event.get("server")) == ("gone", "default/sdk"))
        await await_list(up, with_prefix("any", PLAIN_TOOLS))
        assert await all_dead(started, within=20) == []


async def test_a_bad_manifest_is_named_with_its_line_and_the_rest_is_served(tmp_path: Path) -> None:
    file = tmp_path / "servers.yaml"
    file.write_text(
        ANY + "---\napiVersion: fairlead.dev/v1alpha1\nkind: McpServer\nmetadata:\n  name: bad\nspec:\n  comand: [x]\n"
    )
    async with fairlead_up(tmp_path, cwd=tmp_path) as up:
        problem, _ = await up.events_in_any_order(
            lambda event: event.get("field") == "spec.comand", in_state("default/any", "ready")
        )
        assert (problem["file"], problem["line"]) == (str(file), 9)
        assert problem["message"] == "unknown field; did you mean command?"
        await await_list(up, with_prefix("any", PLAIN_TOOLS))

        # a file that is read between its truncation and its writing has no servers
        written = tmp_path.with_suffix(".written")
        written.write_text(ANY + "foo: [\n")
        written.replace(file)
        await up.event(lambda event: event.get("message", "").startswith("not valid YAML"))
        await await_list(up, with_prefix("any", PLAIN_TOOLS))


SHOW = "import os, sys; print('token', os.environ['TOKEN'], sorted(os.environ), file=sys.stderr); sys.exit(7)"


async def test_values_of_the_environment_reach_the_server_and_no_document(tmp_path: Path) -> None:
    env = {"TOKEN": "${SECRET_OF_MINE}"}
    shows = {"command": sys.executable, "args": ["-c", SHOW], "env": env}
    serves = {"command": PLAIN[0], "args": PLAIN[1:], "env": env}
    (tmp_path / "mcp.json").write_text(json.dumps({"mcpServers": {"shows": shows, "any": serves}}))
    state = tmp_path / "state"
    environment = {"SECRET_OF_MINE": "s3cret", "OTHER_SECRET": "hidden"}
    words = (tmp_path / "mcp.json", "--state-dir", state)
    async with fairlead_up(*words, cwd=tmp_path, env=environment) as up:
        assert (await up.states(2))["default/any"] == "ready:"
        failed = next(event for event in up.events if event.get("state") == "failed")
        assert "token [credential]" in failed["message"], "the value reached it, and is taken out of what it prints"
        assert "SECRET" not in failed["message"], "a server gets what its entry names, and not all that we have"
        documents = list((state / "documents").glob("[!.]*"))  # without temporary files of writes in progress
        assert documents
        assert not any("s3cret" in file.read_text() for file in documents)
        files = list((state / "credentials").glob("[!.]*"))
        assert len(files) == 2
        assert all(file.stat().st_mode & 0o077 == 0 for file in files)


async def test_an_unset_variable_is_named_and_costs_no_other_server(tmp_path: Path) -> None:
    entry = {"command": "x", "env": {"TOKEN": "${NO_SUCH_VARIABLE_HERE}"}}
    serves = {"command": PLAIN[0], "args": PLAIN[1:]}
    (tmp_path / "mcp.json").write_text(json.dumps({"mcpServers": {"a": entry, "any": serves}}))
    async with fairlead_up(tmp_path / "mcp.json", cwd=tmp_path) as up:
        problem, _ = await up.events_in_any_order(
            lambda event: event["event"] == "problem", in_state("default/any", "ready")
        )
        assert "NO_SUCH_VARIABLE_HERE is not set" in problem["message"]


async def test_a_server_that_cannot_run_here_says_why(tmp_path: Path) -> None:
    crash = [sys.executable, "-c", "import sys; sys.exit('boom')"]
    (tmp_path / "a.yaml").write_text(
        manifest("absent", "no-such-program")
        + manifest("crash", *crash)
        + '---\n{"apiVersion": "fairlead.dev/v1alpha1", "kind": "McpServer", "metadata": {"name": "img"},'
        ' "spec": {"image": {"name": "x:1"}}}\n'
        + '---\n{"apiVersion": "fairlead.dev/v1alpha1", "kind": "McpServer", "metadata": {"name": "far"},'
        ' "spec": {"url": "http://127.0.0.1:1/mcp"}}\n'
    )
    expected = {
        "default/absent": ("CommandNotFound", "there is no program no-such-program"),
        "default/crash": ("StartFailed", "boom"),
        "default/img": ("NotSupportedHere", "image needs a cluster"),
        "default/far": ("ConnectionRefused", "refused the connection"),
    }
    async with fairlead_up(tmp_path, cwd=tmp_path) as up:
        while expected:
            event = await up.event(lambda event: event.get("state") == "failed" and event["server"] in expected)
            reason, words = expected.pop(event["server"])
            assert event["cause"] == reason
            assert words in event["message"]


async def test_a_server_that_dies_is_started_again_and_keeps_its_tools_listed(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(manifest("sdk", *FORKED, SDK_STDIO))
    async with fairlead_up(tmp_path, cwd=tmp_path) as up:
        await up.ready("default/sdk")
        await await_list(up, with_prefix("sdk", SDK_TOOLS))
        (child,) = [pid for pid in children_of(up.pid) if SDK_STDIO in command_of(pid)]
        os.kill(child, 9)
        await up.server("default/sdk", "offline")
        assert await tools_of(up.url) == with_prefix("sdk", SDK_TOOLS)
        await up.ready("default/sdk")

        async def answers() -> bool:
            async with Client(up.url) as client:
                return not (await client.call_tool("sdk__add", {"a": 1, "b": 2})).is_error

        await until_async("a call to be answered", answers)


async def test_the_command_line_lists_and_calls_through_fairlead_up(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(STEADY)
    async with fairlead_up(tmp_path, cwd=tmp_path) as up:
        await up.ready("default/demo")
        await await_list(up, with_prefix("demo", DEMO_TOOLS))
        listed = json.loads((await fairlead("tools", "--url", up.url, "--output", "json"))[1])
        assert sorted(tool["name"] for tool in listed) == with_prefix("demo", DEMO_TOOLS)
        own = json.loads((await fairlead("tools", "--url", up.url, "--server", "default/demo", "-o", "json"))[1])
        assert sorted(tool["name"] for tool in own) == DEMO_TOOLS

        words = ("demo__forecast_demand", "item=rope", "weeks=0", "--url", up.url)
        code, printed, _ = await fairlead("call", *words, "--output", "json")
        assert (code, json.loads(printed)["structuredContent"]) == (0, {"item": "rope", "pieces": []})

        code, _, complaint = await fairlead("call", "demo__get_stock", "--url", up.url)
        assert (code, "item" in complaint) == (2, True), complaint
        code, _, complaint = await fairlead("call", "demo__getstock", "item=rope", "--url", up.url)
        assert (code, "Did you mean demo__get_stock?" in complaint) == (2, True)
        code, _, complaint = await fairlead("call", "demo__forecast_demand", "weeks=x", "--url", up.url)
        sentence = "fairlead call: demo__forecast_demand: weeks: 'x' is not an integer. Nothing was called.\n"
        assert (code, complaint) == (2, sentence)
        code, _, complaint = await fairlead("call", "demo__nothing", "a=1", "--url", up.url)
        assert (code, "Unknown tool: demo__nothing." in complaint) == (2, True)
        code, _, complaint = await fairlead("tools", "--url", up.url, "--server", "default/none")
        assert (code, "there is no server default/none" in complaint) == (2, True)


@pytest.mark.parametrize("host", ["127.0.0.1", "[::1]"])
async def test_the_demo_server_can_run_elsewhere_and_be_served_by_its_url(host: str, tmp_path: Path) -> None:
    port = free_port()
    demo = await asyncio.create_subprocess_exec(*DEMO, "--port", str(port), stderr=asyncio.subprocess.DEVNULL)
    try:
        spec = {"url": f"http://{host}:{port}/mcp", **UNPROBED}
        document = {
            "apiVersion": "fairlead.dev/v1alpha1",
            "kind": "McpServer",
            "metadata": {"name": "far"},
            "spec": spec,
        }
        (tmp_path / "a.yaml").write_text(json.dumps(document))
        async with fairlead_up(tmp_path, cwd=tmp_path) as up:
            await up.ready("default/far")
            await await_list(up, with_prefix("far", DEMO_TOOLS))
    finally:
        demo.terminate()
        await demo.wait()


async def test_the_calls_of_a_client_are_counted_in_the_metrics(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(STEADY)
    async with fairlead_up(tmp_path, cwd=tmp_path) as up:
        await up.ready("default/demo")
        await await_list(up, with_prefix("demo", DEMO_TOOLS))
        async with Client(up.url) as client:
            result = await client.call_tool("demo__get_stock", {"item": "x"})
            (text,) = result.content
            assert isinstance(text, TextContent)
        told = await asyncio.to_thread(_fetch, up.metrics)
        assert "mcp_server_operation_duration_seconds_count" in told
        assert "fairlead_operator_leader 1.0" in told
        assert 'fairlead_operator_servers_ready{cause="Verified",ready="True",reason="AsExpected"}' in told


async def test_durations_of_calls_are_measured_and_kept_as_those_of_this_machine(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(STEADY)
    state = tmp_path / "state"

    def tool_states() -> dict[str, Any]:
        documents = [json.loads(file.read_text()) for file in (state / "documents").glob("*.json")]
        servers = [server for document in documents if document["kind"] == "state" for server in document["servers"]]
        return {tool["name"]: tool for server in servers for tool in server["tools"]}

    async def calls_measured() -> bool:
        return tool_states().get("get_stock", {}).get("quantiles") is not None

    async with fairlead_up(tmp_path, "--state-dir", state, cwd=tmp_path) as up:
        await up.ready("default/demo")
        async with Client(up.url) as client:
            for _ in range(12):
                await client.call_tool("demo__get_stock", {"item": "x"})
        await until_async("the calls to be measured", calls_measured, seconds=20)
        tool = tool_states()["get_stock"]
        assert tool["environment"] == "local"
        code, out, _ = await fairlead("explain", "demo__get_stock", "--output", "json", "--url", up.url)
        assert code == 0
        assert json.loads(out)["latency"]["measured_duration_ms"] == round(tool["quantiles"]["p50Ms"])


def _fetch(url: str) -> str:
    from urllib.request import urlopen

    with urlopen(url, timeout=10) as answer:
        return str(answer.read().decode())
