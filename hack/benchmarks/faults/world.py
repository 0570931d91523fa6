"""The world of `bench_faults`: Fairlead installed by its chart, servers, load from both sides, and the test for
recovery.

Recovery means more than running pods. A change of a resource has to arrive in the list of every gateway, every server
has to be Ready, and a call to each server through each gateway has to be answered correctly.
"""

from __future__ import annotations

import http.client
import json
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from fairlead_mcp.addresses import authority
from faults.clients import SdkClients
from faults.redis import Redis
from installation import (
    DEMO,
    GATEWAY,
    MCP_PORT,
    NAMESPACE,
    OPERATOR,
    CommandFailed,
    Installation,
    apply,
    kubectl,
    pods,
    read,
    ready_pods,
)
from rig.harness import Unmeasurable
from steadyloads import Load, Told, inside, outside

SPACE: Final = "faults"
TIER: Final = "faults"
"""A tier without a limit, so that a slow machine does not hide tools."""
HEALTHY: Final = ("alpha", "beta", "canary")
VICTIM: Final = "victim"
RATE: Final = 30.0
VICTIM_RATE: Final = 6.0
BUSY: Final = 12
"""Maximum number of calls of one load in flight while nothing is blocked: a sixth of them take half a second."""
TOOLS: Final = ("alpha__add", "alpha__add_slowly", "beta__add", "canary__add")
LEGACY: Final = "2025-11-25"
MODERN: Final = "2026-07-28"

SDK_SERVER: Final = """
import asyncio
from mcp.server import MCPServer
server = MCPServer("adder")
@server.tool()
async def add(a: int, b: int) -> int:
    return a + b
@server.tool()
async def add_slowly(a: int, b: int) -> int:
    await asyncio.sleep(0.5)
    return a + b
server.run("streamable-http", host="0.0.0.0", port=8080)
"""
STDIO_SERVER: Final = """
import json, sys
NUMBER = {"type": "integer"}
TOOL = {"name": "add", "inputSchema": {"type": "object", "properties": {"a": NUMBER, "b": NUMBER}}}
INFO = {"name": "adder", "version": "1"}
def result(asked):
    if asked["method"] == "initialize":
        return {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": INFO}
    if asked["method"] == "tools/list":
        return {"tools": [TOOL]}
    if asked["method"] != "tools/call":
        return {}
    total = sum(asked["params"]["arguments"].values())
    return {"content": [{"type": "text", "text": str(total)}], "structuredContent": {"result": total}}
for line in sys.stdin:
    asked = json.loads(line)
    if "id" in asked and "method" in asked:
        print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": result(asked)}), flush=True)
"""
"""An MCP server without the SDK, because it starts at once. The SDK takes seconds on a busy machine, and each gateway
starts its own process."""

Json = dict[str, Any]


def server(name: str, **spec: Any) -> Json:
    """An McpServer of this benchmark."""
    return {
        "apiVersion": "fairlead.dev/v1alpha1",
        "kind": "McpServer",
        "metadata": {"name": name, "namespace": SPACE},
        "spec": spec,
    }


def image_server(name: str, script: str, *, transport: str = "streamable-http", **spec: Any) -> Json:
    """An McpServer whose pod runs a script. It requests processor time, so that it is not starved while other pods
    start.
    """
    containers = [{"name": "server", "imagePullPolicy": "Never", "resources": {"requests": {"cpu": "100m"}}}]
    template = {"spec": {"containers": containers, "terminationGracePeriodSeconds": 2}}
    image = {"name": DEMO, "command": ["python", "-c", script], "transport": transport}
    return server(name, image=image, podTemplate=template, **spec)


def victim() -> Json:
    """The server that faults happen to."""
    return image_server(VICTIM, SDK_SERVER, limits={"timeout": "5s", "retries": 0})


def canary(nonce: str) -> Json:
    """The server whose description is changed, to measure when the change arrives."""
    url = f"http://alpha.{SPACE}.svc:8080/mcp"
    return server("canary", url=url, tools=[{"name": "add", "description": nonce}])


def tool_of(name: str) -> str:
    """Name of a tool for agents."""
    return f"{name}__add"


@dataclass(frozen=True)
class Whole:
    """Seconds until recovery."""

    ours: float
    """Recovery of Fairlead: every server is Ready, and every gateway is up to date and answers calls correctly."""
    reported: float
    """Recovery of Fairlead, and every pod is ready in Kubernetes."""


@dataclass
class World:
    """Installation on a cluster under load, and its current state."""

    installation: Installation
    folder: Path
    redis: Redis
    clients: SdkClients
    loads: list[Load] = field(default_factory=list)
    """Loads on the healthy servers."""
    victims: list[Load] = field(default_factory=list)
    """Loads on the server that faults happen to."""

    def report(self, since: float, at: float = 0.0) -> list[Told]:
        """Results of all loads except the victim's. `open_then` are the calls that were open at time `at`."""
        reports = [load.report(since, at) for load in self.loads]
        return [*reports, Told(**self.clients.report(since, at))]

    def of_victim(self, since: float) -> Told:
        """Results of the load on the server that faults happen to."""
        return self.victims[0].report(since)

    def quiet(self) -> None:
        """Wait until every call that began before now has ended, with or without success."""
        for load in self.loads:
            load.await_settled(time.time(), busy=BUSY)

    # Recovery

    def converged(self, healed: float, *, seconds: float, also: Callable[[], str] = lambda: "") -> Whole:
        """Seconds from `healed` until a change made now has arrived everywhere and everything works.

        Raises Unmeasurable with the remaining problem after `seconds`.
        """
        nonce = f"changed at {time.time()}"
        end, applied, last_amiss, ours = time.monotonic() + seconds, False, "", None
        while time.monotonic() < end:
            try:
                if not applied:
                    apply(canary(nonce))
                    applied = True
                amiss = self.amiss(nonce) or also()
                if not amiss:
                    ours = ours or time.time()
                    amiss = unreported()
                    if not amiss:
                        return Whole(max(0.0, ours - healed), max(0.0, time.time() - healed))
            except (CommandFailed, subprocess.TimeoutExpired) as error:
                amiss = str(error)[-300:]
            except (OSError, ValueError, KeyError, http.client.HTTPException) as error:
                amiss = f"{type(error).__name__}: {error}"
            if amiss != last_amiss:
                print(f"    {time.time() - healed:.1f} s: {amiss}", file=sys.stderr)
                last_amiss = amiss
            time.sleep(0.2)
        raise Unmeasurable(f"not whole again within {seconds:g} s: {last_amiss}")

    def amiss(self, nonce: str) -> str:
        """First problem that Fairlead has not solved yet; empty if there is none."""
        gateways = [pod for pod in pods(GATEWAY) if pod["status"].get("podIP")]
        if len(gateways) < 2:
            return f"{len(gateways)} of 2 gateways have an address"
        for item in read("mcps", "-n", SPACE)["items"]:
            name, conditions = item["metadata"]["name"], item.get("status", {}).get("conditions", ())
            state: Json = next((c for c in conditions if c["type"] == "Ready"), {})
            seen = state.get("observedGeneration") == item["metadata"]["generation"]
            if not seen or state["status"] != "True":
                return f"{name} is not Ready: {state}"
        for pod in gateways:
            if trouble := self._trouble(pod["status"]["podIP"], nonce):
                return f"{pod['metadata']['name']}: {trouble}"
        return ""

    def _trouble(self, address: str, nonce: str) -> str:
        """Problem of one gateway; empty if there is none."""
        with urllib.request.urlopen(f"http://{authority(address, MCP_PORT)}/readyz", timeout=2) as answer:
            state = json.load(answer)
        if state["stale"]:
            return "its catalog is stale"
        listed = {tool["name"]: tool for tool in ask(address, "tools/list", {})["tools"]}
        missing = {tool_of(name) for name in (*HEALTHY, VICTIM)} - set(listed)
        if missing:
            return f"does not list {missing}"
        if listed[tool_of("canary")].get("description") != nonce:
            return "has not heard of the change"
        for name in (*HEALTHY, VICTIM):
            result = ask(address, "tools/call", {"name": tool_of(name), "arguments": {"a": 1, "b": 2}})
            if result.get("structuredContent") != {"result": 3}:
                return f"{name} answers {str(result)[:200]}"
        return ""


def ask(address: str, method: str, params: Json) -> Json:
    """Send one request to one gateway. Raises OSError or KeyError if there is no result."""
    meta = {"io.modelcontextprotocol/protocolVersion": MODERN, "io.modelcontextprotocol/clientCapabilities": {}}
    headers = {"content-type": "application/json", "accept": "application/json, text/event-stream"}
    headers |= {"mcp-protocol-version": MODERN, "mcp-method": method}
    if "name" in params:
        headers["mcp-name"] = params["name"]
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**params, "_meta": meta}}
    url = f"http://{authority(address, MCP_PORT)}/mcp/{TIER}"
    request = urllib.request.Request(url, json.dumps(body).encode(), headers)
    with urllib.request.urlopen(request, timeout=4) as answer:
        result: Json = json.load(answer)["result"]
    return result


@contextmanager
def world(installation: Installation, folder: Path, redis: Redis) -> Iterator[World]:
    """Apply the servers, wait until everything works, and run the loads."""
    kubectl("create", "namespace", SPACE)
    try:
        apply({"apiVersion": "fairlead.dev/v1alpha1", "kind": "LatencyTier", "metadata": {"name": TIER}, "spec": {}})
        apply(
            image_server("alpha", SDK_SERVER, limits={"callsPerMinute": 30000}),  # shared by both gateways in Redis
            image_server("beta", STDIO_SERVER, transport="stdio"),
            victim(),
            canary("as it was"),
        )
        here = World(installation, folder, redis, SdkClients(f"{installation.url}/mcp/{TIER}", TOOLS))
        here.converged(time.time(), seconds=180)
        with _loads(here), here.clients.running():
            time.sleep(5)
            yield here
    finally:
        kubectl("delete", "namespace", SPACE, "--wait=false")
        kubectl("delete", "lt", TIER, "--ignore-not-found")


@contextmanager
def _loads(here: World) -> Iterator[None]:
    """Loads of modern clients outside of the cluster, of legacy clients inside, and of some clients on the victim."""
    path, victims = f"/mcp/{TIER}", [tool_of(VICTIM)]
    near = f"{here.installation.inside}{path}"
    far = f"{here.installation.url}{path}"
    here.loads.append(inside("inside", near, namespace=SPACE, era=LEGACY, rate=RATE, tools=TOOLS))
    with (
        outside("outside", far, era=MODERN, rate=RATE, tools=TOOLS) as load,
        outside(VICTIM, far, era=MODERN, rate=VICTIM_RATE, tools=victims) as victim_load,
    ):
        here.loads.append(load)
        here.victims.append(victim_load)
        yield


def unreported() -> str:
    """Pods that are not ready in Kubernetes; empty if all are ready."""
    for selector, name, wanted in ((GATEWAY, "gateways", 2), (OPERATOR, "operators", 1)):
        ready = len(ready_pods(selector))
        if ready < wanted:
            return f"Kubernetes calls {ready} of {wanted} {name} ready"
    return ""


def gateway_pods() -> list[Json]:
    """Ready gateway pods of the release."""
    return ready_pods(GATEWAY, NAMESPACE)
