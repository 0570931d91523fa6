"""An installation in use: clients of several SDKs, measurements, tiers, policies, an upgrade under load."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError

from cluster_questions import mcp_server, needs, ready
from fairlead_mcp.addresses import authority
from installation import DEMO, GATEWAY, OPERATIONS_PORT, POD_IP, Installation, apply, kubectl, ready_pods
from ports import free_port
from steadyloads import inside, outside
from waiting import until, until_async

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300, func_only=True)]

ADDER = """
import os
from mcp.server import MCPServer
server = MCPServer("adder")
@server.tool()
async def add(a: int, b: int) -> int:
    return a + b
server.run("streamable-http", host=os.environ["POD_IP"], port=8080)
"""
SDK = """
import asyncio, sys
from mcp import Client
async def main():
    for mode in ("auto", "legacy"):
        async with Client(sys.argv[1], mode=mode) as client:
            names = {tool.name for tool in (await client.list_tools()).tools}
            assert sys.argv[2] in names, names
            result = await client.call_tool(sys.argv[2], {"a": 2, "b": 3})
            assert result.structured_content == {"result": 5}, result
asyncio.run(main())
print("five")
"""
FASTMCP = """
import asyncio, sys, warnings
warnings.simplefilter("ignore")
from fastmcp import Client
async def main():
    async with Client(sys.argv[1]) as client:
        assert sys.argv[2] in [tool.name for tool in await client.list_tools()]
        assert (await client.call_tool(sys.argv[2], {"a": 2, "b": 3})).structured_content == {"result": 5}
asyncio.run(main())
print("five")
"""
TYPESCRIPT = """
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
const [, , url, name] = process.argv;
const client = new Client({ name: "e2e", version: "1" });
await client.connect(new StreamableHTTPClientTransport(new URL(url)));
if (!(await client.listTools()).tools.some((tool) => tool.name === name)) throw new Error("not listed");
const result = await client.callTool({ name, arguments: { a: 2, b: 3 } });
if (result.structuredContent.result !== 5) throw new Error(JSON.stringify(result));
console.log("five");
await client.close();
"""


@pytest.fixture
def adder(installation: Installation, namespace: str) -> str:
    """Name of a Ready server with the tool `add`."""
    name = f"adder-{namespace[-8:]}"
    manifest = mcp_server(name, image={"name": DEMO, "command": ["python", "-c", ADDER]}, env=[POD_IP])
    kubectl("apply", "-n", namespace, "-f", "-", stdin=manifest)
    until("Ready", lambda: ready(namespace, name) == "True", seconds=120)
    return name


def output_of(*command: str, folder: Path) -> str:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=150)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.strip()


def test_clients_of_three_makes_list_and_call_from_outside(gateway: str, adder: str, tmp_path: Path) -> None:
    url = f"{gateway}/mcp"
    name = f"{adder}__add"
    assert output_of(sys.executable, "-c", SDK, url, name, folder=tmp_path) == "five"
    assert output_of(sys.executable, "-c", FASTMCP, url, name, folder=tmp_path) == "five"
    npm = shutil.which("npm")
    needs(None if npm else "npm is not installed: no client of the TypeScript SDK")
    assert npm is not None
    (tmp_path / "client.mjs").write_text(TYPESCRIPT)
    output_of(npm, "install", "--silent", "--no-audit", "--no-fund", "@modelcontextprotocol/sdk@^1", folder=tmp_path)
    assert output_of("node", "client.mjs", url, name, folder=tmp_path) == "five"


def test_a_client_in_a_pod_lists_and_calls_through_the_service(
    installation: Installation, namespace: str, adder: str
) -> None:
    command = ["python", "-c", SDK, f"{installation.inside}/mcp", f"{adder}__add"]
    container = {"name": "client", "image": DEMO, "imagePullPolicy": "Never", "command": command}
    template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "client"}}
    apply({**job, "spec": {"backoffLimit": 0, "template": template}}, namespace=namespace)
    kubectl("wait", "-n", namespace, "--for=condition=Complete", "job/client", "--timeout=50s")
    assert kubectl("logs", "-n", namespace, "job/client").splitlines()[-1] == "five"


@contextmanager
def prometheus(folder: Path, targets: list[str]) -> Iterator[str]:
    """URL of a real Prometheus that scrapes the targets."""
    program = shutil.which("prometheus")
    needs(None if program else "prometheus is not installed: apt-get install prometheus")
    assert program is not None
    scrape = {"job_name": "fairlead-gateway", "scrape_interval": "1s", "static_configs": [{"targets": targets}]}
    (folder / "prometheus.yml").write_text(json.dumps({"scrape_configs": [scrape]}))
    address = f"127.0.0.1:{free_port()}"
    words = ["--config.file=prometheus.yml", "--storage.tsdb.path=data", f"--web.listen-address={address}"]
    with (folder / "prometheus.log").open("w") as log:
        process = subprocess.Popen([program, *words], cwd=folder, stdout=log, stderr=log)
        try:
            yield f"http://{address}"
        finally:
            process.terminate()
            process.wait(20)


def query_value(base: str, query: str) -> float | None:
    """The only value of a query's result; None if the result is empty."""
    url = f"{base}/api/v1/query?{urllib.parse.urlencode({'query': query})}"
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:
            series = json.load(answer)["data"]["result"]
    except OSError:
        return None
    value = float(series[0]["value"][1]) if series else float("nan")
    return None if value != value else value


async def test_prometheus_reads_a_tools_p95_and_kubectl_shows_it(gateway: str, namespace: str, tmp_path: Path) -> None:
    name = f"demo-{namespace[-8:]}"
    kubectl("apply", "-n", namespace, "-f", "-", stdin=mcp_server(name, image={"name": DEMO}))
    until("Ready", lambda: ready(namespace, name) == "True", seconds=120)
    targets = [authority(pod["status"]["podIP"], OPERATIONS_PORT) for pod in ready_pods(GATEWAY)]
    tool = f"{name}__search_orders"
    of_tool = f'gen_ai_tool_name="search_orders",fairlead_server="{namespace}/{name}"'
    buckets = f'mcp_server_operation_duration_seconds_bucket{{mcp_method_name="tools/call",{of_tool}}}'
    with prometheus(tmp_path, targets) as base:
        async with Client(f"{gateway}/mcp/deep") as client:

            async def p95() -> float | None:
                assert not (await client.call_tool(tool, {"customer": "Ahab"})).is_error
                return query_value(base, f"histogram_quantile(0.95, sum by (le) (rate({buckets}[1m])))")

            value = await until_async("a p95", p95, seconds=60)
    assert value is not None
    assert value > 0.2, "it takes 0.3 s"

    def columns() -> list[str]:
        return kubectl("get", "mcps", "-n", namespace, name, "-o", "wide", "--no-headers").split()

    until("the columns P50, P95 and Slowest", lambda: columns()[5].isdigit() and columns()[6].isdigit(), seconds=90)


async def test_a_slow_tool_leaves_the_fast_tier_and_stays_in_the_deep_one(gateway: str, namespace: str) -> None:
    name = f"slow-{namespace[-8:]}"
    kubectl("apply", "-n", namespace, "-f", "-", stdin=mcp_server(name, image={"name": DEMO}))
    until("Ready", lambda: ready(namespace, name) == "True", seconds=120)
    slow = f"{name}__ask_supplier"  # takes 1 s, and the limit of `fast` is 500 ms

    async def is_left() -> bool:
        async with Client(f"{gateway}/mcp/deep") as deep, Client(f"{gateway}/mcp/fast") as fast:
            assert not (await deep.call_tool(slow, {"item": "rope"})).is_error
            shown = {tool.name for tool in (await fast.list_tools()).tools}
            return slow not in shown and f"{name}__get_stock" in shown

    await until_async("the slow tool to leave", is_left, seconds=90)
    async with Client(f"{gateway}/mcp/deep") as deep:
        assert slow in {tool.name for tool in (await deep.list_tools()).tools}


def policy(*rules: dict[str, Any]) -> dict[str, Any]:
    manifest = {"apiVersion": "fairlead.dev/v1alpha1", "kind": "ToolPolicy", "metadata": {"name": "some"}}
    return {**manifest, "spec": {"rules": list(rules)}}


async def test_a_tool_policy_changes_the_list_within_a_second(gateway: str, namespace: str) -> None:
    name = f"ruled-{namespace[-8:]}"
    kubectl("apply", "-n", namespace, "-f", "-", stdin=mcp_server(name, image={"name": DEMO}))
    until("Ready", lambda: ready(namespace, name) == "True", seconds=120)
    async with Client(f"{gateway}/servers/{namespace}/{name}/mcp/deep") as client:

        async def list_tool_names() -> set[str]:
            return {tool.name for tool in (await client.list_tools(cache_mode="bypass")).tools}

        async def seconds_until_listed(*names: str) -> float:
            """Seconds until exactly these tools are listed."""
            began = time.monotonic()

            async def is_listed() -> bool:
                return await list_tool_names() == set(names)

            await until_async(f"{names} alone", is_listed, seconds=30)
            return time.monotonic() - began

        took = []
        for tool in ("get_stock", "search_orders", "forecast_demand"):
            apply(policy({"action": "Allow", "tools": [tool]}), namespace=namespace)
            took.append(await seconds_until_listed(tool))
        assert min(took) < 1.0, took  # repeated, because the machine may be busy
        with pytest.raises(MCPError, match="Unknown tool"):
            await client.call_tool("get_stock", {"item": "rope"})


def test_an_upgrade_under_load_fails_no_call(installation: Installation, namespace: str, adder: str) -> None:
    kubectl(
        "apply",
        "-f",
        "-",
        stdin=json.dumps(
            {"apiVersion": "fairlead.dev/v1alpha1", "kind": "LatencyTier", "metadata": {"name": "e2e"}, "spec": {}}
        ),
    )
    tools = [f"{adder}__add"]
    before = {pod["metadata"]["name"] for pod in ready_pods(GATEWAY)}
    pod_load = inside(
        "inside", f"{installation.inside}/mcp/e2e", namespace=namespace, era="2025-11-25", rate=20, tools=tools
    )
    with outside("outside", f"{installation.url}/mcp/e2e", era="2026-07-28", rate=20, tools=tools) as process_load:
        loads = (process_load, pod_load)
        until("load", lambda: all(load.report(0).good > 20 for load in loads), seconds=60)
        began = time.time()
        installation.upgrade("logging.level=DEBUG")
        until(
            "both replaced", lambda: not before & {pod["metadata"]["name"] for pod in ready_pods(GATEWAY)}, seconds=60
        )
        since = time.time()
        until("calls after that", lambda: all(load.report(since).good > 60 for load in loads), seconds=60)
        for load in loads:
            told = load.await_settled(began, busy=3)
            assert told.calls > 100
            assert told.bad == [], f"{told.where}: {told.bad[:5]}"
    kubectl("delete", "lt", "e2e")
