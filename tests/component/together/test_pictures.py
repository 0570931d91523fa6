"""Dashboard and alerts with a real Prometheus, which scrapes a real gateway and operator in every state that the alerts
are about.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import subprocess
import sys
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.request import ProxyHandler, build_opener

import pytest
import yaml
from starlette.responses import JSONResponse
from starlette.types import Receive, Scope, Send

from apiproxy import ApiProxy
from fairlead_api.documents.codec import state_name
from fairlead_app.configured_models import ConfiguredModels
from fairlead_app.gateway import Gateway
from fairlead_formats.scripted_turns import ScriptedCall, ScriptedTurn
from fairlead_llm.scripted_model import ScriptedModel
from fairlead_operator.probes import serve
from gatewayworld import Wire, ask, calling, modern
from operatorworld import QUICK, World, running
from ports import free_port
from prometheus import WINDOW, Prometheus, hurried_query, hurry_rules, program, prometheus
from rawserver import Reply, Request, raw_server
from restworld import post
from togetherworld import gateway_on
from toolservers import answer_modern, serve_asgi, tool
from waiting import until_async

ROOT = Path(__file__).parents[3]
RULES = ROOT / "charts/fairlead/alerts/fairlead.yaml"
DASHBOARD = ROOT / "charts/fairlead/dashboards/fairlead.json"
PAGE = ROOT / "docs/reference/metrics.md"
ALERTS = [rule["alert"] for group in yaml.safe_load(RULES.read_text())["groups"] for rule in group["rules"]]
PACED = {"FairleadGrantsFull", "FairleadWritesUndone"}
"""Alerts that take too long for this test: undone repairs happen at growing intervals, and only thousands of grants
fill the store. `promtool` tests them.
"""
THRESHOLDS = {"FairleadDecisionsStale": ("> 60", "> 2"), "FairleadSampleLag": ("> 10", "> 2")}


class Shop:
    """A server whose faults the test controls."""

    def __init__(self, *tools: Any, ttl_ms: int | None = None) -> None:
        self.tools = list(tools)
        self.ttl_ms = ttl_ms
        self.deaf = False
        self.broken = False
        self.refuses = False
        self.seconds = 0.0
        self.awake = asyncio.Event()
        """The server answers only while this event is set."""
        self.awake.set()

    async def __call__(self, request: Request, reply: Reply) -> None:
        await self.awake.wait()
        if self.deaf:
            reply.close()
        elif request.method == "tools/list" and self.ttl_ms is not None:
            reply.result(request, {"resultType": "complete", "tools": self.tools, "ttlMs": self.ttl_ms})
        elif request.method != "tools/call":
            answer_modern(request, reply, self.tools)
        elif self.broken:
            reply.error(request, 200, -32603, "broken")
        else:
            await asyncio.sleep(self.seconds)  # the duration that is measured
            reply.result(request, {"resultType": "complete", "content": [], "isError": self.refuses})


class SwitchedModel(ScriptedModel):
    """A model that answers or is down."""

    down = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self.down and scope["type"] == "http":
            await JSONResponse({}, 500)(scope, receive, send)
        else:
            await super().__call__(scope, receive, send)


class Relay:
    """Proxy for a port. While it is shut, it closes connections at once."""

    def __init__(self, port: int) -> None:
        self.open = True
        self._port = port

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            head = await reader.readuntil(b"\r\n\r\n")
            if self.open:
                back, forth = await asyncio.open_connection("127.0.0.1", self._port)
                forth.write(head)
                answer = await back.read()
                forth.close()
                if self.open:
                    writer.write(answer)
                    await writer.drain()
        writer.close()


@dataclass
class Ports:
    gateway: int
    operator: int
    relay: int


class Traffic:
    """Makes consecutive calls on each of a few connections until it is cancelled."""

    def __init__(self, gateway: Gateway, group: asyncio.TaskGroup) -> None:
        self._gateway = gateway
        self._group = group
        self._tasks: list[asyncio.Task[None]] = []

    def call(self, name: str, target: str, *, wires: int = 1, pause: float = 0.05) -> None:
        for _ in range(wires):
            self._tasks.append(self._group.create_task(self._keep_calling(name, target, pause)))

    def chat(self) -> None:
        """Send requests for streams to a model."""
        self._tasks.append(self._group.create_task(self._keep_chatting()))

    def stop(self) -> None:
        for task in self._tasks:
            task.cancel()

    async def _keep_chatting(self) -> None:
        body = {"model": "gpt", "stream": True, "messages": [{"role": "user", "content": "Hi"}]}
        while True:
            await post(self._gateway, "/v1/chat/completions", body)
            await asyncio.sleep(0.1)  # the pace of an agent

    async def _keep_calling(self, name: str, target: str, pause: float) -> None:
        async with await Wire.connect(self._gateway) as wire:
            while True:
                wire.send(calling(name).to(target))
                await wire.answer(seconds=60)
                await asyncio.sleep(pause)  # the pace of an agent


@contextlib.asynccontextmanager
async def operating(world: World, ports: Ports, proxy: ApiProxy) -> AsyncIterator[None]:
    settings = QUICK.replace(gateways=f"http://127.0.0.1:{ports.relay}", default_tier="fast")
    async with (
        running(world, settings, kubeconfig=str(proxy.kubeconfig)) as operator,
        serve(operator, "127.0.0.1", ports.operator),
    ):
        yield


def gateway_with_models(
    world: World, ports: Ports, proxy: ApiProxy, models: Path
) -> contextlib.AbstractAsyncContextManager[Gateway]:
    """A gateway with a file of models, whose limits are shared in a Redis that does not exist."""
    redis = f"redis://127.0.0.1:{free_port()}"
    return gateway_on(
        world.plane,
        world.release,
        resolve=world.hosts.resolve,
        kubeconfig=proxy.kubeconfig,
        metrics_port=ports.gateway,
        redis=redis,
        models=ConfiguredModels.of_file(models),
    )


def write_providers(model: int) -> str:
    """Write the providers file with a model on a port, and its price."""
    providers = {"scripted": {"baseUrl": f"http://127.0.0.1:{model}/v1", "models": ["gpt"]}}
    return json.dumps(
        {"providers": providers, "models": {"gpt": {"context": 128000, "price": {"input": 1, "output": 2}}}}
    )


def series_names(port: int) -> set[str]:
    """Names of the series at a port, without those about the process."""
    with build_opener(ProxyHandler({})).open(f"http://127.0.0.1:{port}/metrics", timeout=20) as answer:
        text = answer.read().decode()
    names = {line.split(" ")[2] for line in text.splitlines() if line.startswith("# TYPE ")}
    return {name for name in names if not name.startswith(("process_", "python_")) and not name.endswith("_created")}


async def panels_without_data(watch: Prometheus) -> list[str]:
    panels = [panel for panel in json.loads(DASHBOARD.read_text())["panels"] if panel["type"] != "row"]
    return [
        f"{panel['title']}: {target['expr']}"
        for panel in panels
        for target in panel["targets"]
        if not await watch.query(hurried_query(target["expr"]))
    ]


@pytest.mark.timing  # rates over windows of seconds, which are unreliable on a busy machine
@pytest.mark.timeout(600)
async def test_every_alert_fires_and_clears_and_every_panel_has_data(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_TRACES_EXPORTER", "otlp")  # exports to no collector, so that losses are counted too
    ports = Ports(free_port(), free_port(), free_port())
    shop = Shop(tool("knot"), tool("splice"))
    flaky = Shop(tool("reef"))
    narrow = Shop(tool("bend"))
    gone = Shop(tool("hitch"))
    useless = Shop(tool("look", annotations={"readOnlyHint": True}))
    pinned = Shop(tool("plait"), ttl_ms=1)
    twins = [Shop(tool("coil")), Shop(tool("coil"))]
    rules = hurry_rules(RULES.read_text(), THRESHOLDS)
    relay = Relay(ports.gateway)
    async with contextlib.AsyncExitStack() as stack:
        enter = stack.enter_async_context
        targets = {"gateway": ports.gateway, "operator": ports.operator}
        watch = await enter(prometheus(_folder(tmp_path / "prometheus"), targets, rules))
        await watch.until_fired(["FairleadGatewayAbsent", "FairleadOperatorNotLeading"])

        operators_way = await enter(ApiProxy(world.plane, _folder(tmp_path / "operator")))
        gateways_way = await enter(ApiProxy(world.plane, _folder(tmp_path / "gateway")))
        stack.push_async_callback(_close, await asyncio.start_server(relay, "127.0.0.1", ports.relay))
        for name, server in {"shop": shop, "flaky": flaky, "narrow": narrow, "gone": gone}.items():
            limits = {"concurrency": 1} if name == "narrow" else {}
            world.create(name, {"url": (await enter(raw_server(server))).url, "limits": limits})
        world.hosts.pods["twins.example.com"] = [(await enter(raw_server(pod))).port for pod in twins]
        world.create("twins", {"url": "http://twins.example.com/mcp"})
        world.create("pinned", {"url": (await enter(raw_server(pinned))).url, "pin": True})
        model = SwitchedModel(ScriptedTurn("", [ScriptedCall("shop__splice")]))
        models = tmp_path / "models.yaml"
        models.write_text(usable := write_providers(await enter(serve_asgi(model))))
        gateway = await enter(gateway_with_models(world, ports, gateways_way, models))
        async with contextlib.AsyncExitStack() as operator:
            await operator.enter_async_context(operating(world, ports, operators_way))
            async with asyncio.TaskGroup() as group:
                traffic = Traffic(gateway, group)
                await _tools_are(gateway, 7)
                for name in ("shop__knot", "shop__splice", "flaky__reef", "narrow__bend", "gone__hitch"):
                    traffic.call(name, "/mcp")
                traffic.call("twins__coil", "/mcp", wires=2)
                traffic.chat()
                await watch.until_quiet()
                await until_async("an answer of the model", lambda: watch.query("gen_ai_client_token_usage_count"))

                # everything breaks
                shop.seconds = 0.7
                flaky.broken = True
                gone.deaf = True
                narrow.seconds = 0.3
                model.down = True
                models.write_text("providers: [")
                twins[0].awake.clear()
                useless.refuses = True
                pinned.tools = [tool("plait", description="Not what it was.")]
                traffic.call("gone__hitch", "/mcp", wires=20, pause=60.0)
                one_a_second = {
                    "limits": {"callsPerMinute": 60},
                    "trustAnnotations": True,
                    "calibration": {"probe": "ReadOnly"},
                }
                world.create("useless", {"url": (await enter(raw_server(useless))).url, **one_a_second})
                traffic.call("useless__look", "/mcp")
                traffic.call("narrow__bend", "/mcp", wires=15)
                traffic.call("shop__knot", "/mcp", wires=4)
                await ask(gateway, modern("tools/list").with_headers(mcp_method="tools/call"))
                await watch.until_fired(
                    [
                        "FairleadServerDown",
                        "FairleadBreakerOpen",
                        "FairleadPodLeft",
                        "FairleadModelBreakerOpen",
                        "FairleadCallsFail",
                        "FairleadBudgetBreaches",
                        "FairleadToolLeftTier",
                        "FairleadToolDegraded",
                        "FairleadCallsQueue",
                        "FairleadServersNotReady",
                        "FairleadProbesFail",
                        "FairleadDefinitionsHeld",
                        "FairleadConfigReloadFailed",
                    ]
                )
                assert await panels_without_data(watch) == []
                await _draw(watch, tmp_path / "dashboard.svg")
                assert await asyncio.to_thread(series_names, ports.gateway) | await asyncio.to_thread(
                    series_names, ports.operator
                ) == set(re.findall(r"^\| `(\w+)`", PAGE.read_text(), re.MULTILINE))

                # measurements do not reach the operator, and its decisions do not reach the API server
                relay.open = False
                await watch.until_fired(["FairleadGatewaySilent"])
                await asyncio.sleep(4.0)  # delays the samples by this time
                relay.open = True
                await watch.until_fired(["FairleadSampleLag"])
                operators_way.refuse(lambda method, path: method != "GET" and path.endswith(state_name(0)))
                flaky.broken = False
                gone.deaf = False
                narrow.seconds = 0.0
                shop.seconds = 0.0
                twins[0].awake.set()
                await watch.until_fired(["FairleadPublishingFails"])
                operators_way.refuse(None)
                traffic.stop()

            # no operator runs, the documents are manipulated, and then cannot be watched
            await operator.aclose()
            _put_junk(world)
            await watch.until_fired(["FairleadDocumentsBroken"])
            world.request("DELETE", world.config_map_path("junk"))
            await gateways_way.__aexit__(None, None, None)
            await watch.until_fired(["FairleadDecisionsStale", "FairleadCatalogStale"])
            assert await watch.recent_alerts() == set(ALERTS) - PACED

        # all faults are over
        await gateways_way.__aenter__()
        world.request("DELETE", world.server_path("useless"))
        pinned.tools = [tool("plait")]
        model.down = False
        models.write_text(usable)
        await enter(operating(world, ports, operators_way))
        async with asyncio.TaskGroup() as group:
            traffic = Traffic(gateway, group)
            for name in ("shop__knot", "shop__splice", "flaky__reef", "gone__hitch"):
                traffic.call(name, "/mcp/deep")
            traffic.chat()
            await watch.until_quiet()
            traffic.stop()


def test_the_rules_are_what_promtool_takes_for_rules() -> None:
    done = subprocess.run(
        [program("promtool"), "check", "rules", str(RULES)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_alert_says_what_to_do() -> None:
    page = (ROOT / "docs" / "operate" / "alerts.md").read_text()
    headings = re.findall(r"^## (\w+)$", page, re.MULTILINE)
    assert headings == ALERTS
    for group in yaml.safe_load(RULES.read_text())["groups"]:
        for rule in group["rules"]:
            assert rule["labels"]["severity"] in ("critical", "warning", "info")
            assert {"summary", "description"} < rule["annotations"].keys()
            assert rule["annotations"]["runbook"] == f"docs/operate/alerts.md#{rule['alert'].lower()}"


async def _draw(watch: Prometheus, file: Path) -> None:
    """Assert that every panel of the dashboard has data."""
    words = [str(file), "--prometheus", f"http://127.0.0.1:{watch.port}", "--minutes", "1.5", "--window", WINDOW]
    drawing = await asyncio.create_subprocess_exec(sys.executable, ROOT / "hack" / "dashboard.py", *words, stderr=PIPE)
    _, output = await drawing.communicate()
    assert (drawing.returncode, output.decode()) == (0, "")
    panels = [panel for panel in json.loads(DASHBOARD.read_text())["panels"] if panel["type"] != "row"]
    assert (await asyncio.to_thread(file.read_text)).count('class="title"') == len(panels)


async def _tools_are(gateway: Gateway, count: int) -> None:
    async def look() -> bool:
        answer = await ask(gateway, modern("tools/list"))
        return len(answer.message["result"]["tools"]) == count

    await until_async(f"{count} tools", look, seconds=40)


def _put_junk(world: World) -> None:
    body = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "data": {"document.json": "{junk"},
        "metadata": {"name": "junk", "namespace": world.release, "labels": {"fairlead.dev/document": "catalog"}},
    }
    status, answer = world.request("POST", f"/api/v1/namespaces/{world.release}/configmaps", body)
    assert status == 201, answer


def _folder(path: Path) -> Path:
    path.mkdir()
    return path


async def _close(server: asyncio.Server) -> None:
    server.close()
