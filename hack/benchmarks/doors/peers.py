"""Doors of other products that do the same: LiteLLM for models and for a tool over REST, FastMCP for a function in
process. ToolHive's vMCP has a door for MCP alone, which `hack/bench gateway --peers` measures; none of them runs the
calls of a model's message.
"""

from __future__ import annotations

import json
import secrets
import urllib.request
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Final

from doors.models import CONVERSATIONS, Conversation
from doors.rows import TEXT, Door, HttpLoad, Window, post, program_load
from doors.targets import Targets
from gateway.gateways import Target
from gateway.peers.peer import environment, venv
from ports import free_port
from rig.harness import Unmeasurable
from rig.loadtools import Load, Outcome

PREFIXES: Final = {"chat": "openai", "responses": "openai", "messages": "anthropic"}
"""LiteLLM's names of the providers, by family."""
ASKED: Final = tuple(each for each in CONVERSATIONS if each.family.name in PREFIXES and not each.calls)
TOOLS_PATH: Final = "/mcp-rest/tools"
HERE: Final = Path(__file__).resolve().parent
FASTMCP: Final = """
import asyncio, itertools, json, sys, time
import uvloop
from fastmcp import Client, FastMCP

options = json.loads(sys.argv[1])
sys.path.insert(0, options["benchmarks"])
from doors.figures import figures

server, times, wrong, numbers = FastMCP("bench"), [], [], itertools.count(1)


@server.tool
def echo(text: str) -> str:
    return text


async def call(client):
    while not wrong:
        text, began = f"{next(numbers):08}" + "a" * 20, time.perf_counter()
        outcome = await client.call_tool("echo", {"text": text})
        times.append((time.perf_counter() - began) * 1e6)
        if outcome.data != text:
            wrong.append(repr(outcome)[:600])


async def main():
    async with Client(server) as client:
        running = [asyncio.create_task(call(client)) for _ in range(options["tasks"])]
        await asyncio.sleep(options["warmup"])
        before, began = len(times), time.perf_counter()
        print("START", flush=True)
        await asyncio.sleep(options["seconds"])
        print(json.dumps(figures(times[before:], time.perf_counter() - began, "".join(wrong))), flush=True)
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)


uvloop.run(main())
"""
"""Program that calls a function by FastMCP's client in the same process, and speaks as mcpload does."""


@dataclass(frozen=True)
class LiteLLM:
    """A running proxy with its master key, and without a database."""

    target: Target
    key: str

    @property
    def header(self) -> str:
        """Line of a head with the key."""
        return f"Authorization: Bearer {self.key}"

    def server_id(self) -> str:
        """Id of its MCP server. Raises Unmeasurable."""
        url = f"http://127.0.0.1:{self.target.port}{TOOLS_PATH}/list"
        request = urllib.request.Request(url, headers=dict([self.header.split(": ", 1)]))
        with urllib.request.urlopen(request, timeout=60) as answer:
            tools = json.load(answer)["tools"]
        if not tools:
            raise Unmeasurable("LiteLLM lists no tools")
        return str(tools[0]["mcp_info"]["server_id"])


@cache
def litellm(targets: Targets) -> LiteLLM:
    """Start LiteLLM in front of the scripted provider and the upstream. Raises Unmeasurable."""
    program = venv("litellm", "litellm[proxy]", "uvloop") / "litellm"
    port, key = free_port(), f"sk-{secrets.token_hex(20)}"
    config = {
        "general_settings": {"master_key": key},
        "model_list": [{"model_name": each.model, "litellm_params": _parameters(each, targets)} for each in ASKED],
        "mcp_servers": {"up": {"url": f"http://127.0.0.1:{targets.upstream.port}/mcp", "transport": "http"}},
    }
    file = targets.stage.folder / "litellm.json"
    file.write_text(json.dumps(config))
    words: list[str | Path] = [program, "--config", file, "--host", "127.0.0.1", "--port", str(port)]
    quiet = {"LITELLM_LOCAL_MODEL_COST_MAP": "True", "LITELLM_LOG": "ERROR", "NO_DOCS": "True"}
    variables = {**environment(), **quiet}
    process = targets.stage.start("litellm", [*words, "--num_workers", "1"], core=targets.hop, env=variables)
    targets.stage.wait_listening("litellm", process, port, 180)
    return LiteLLM(Target("LiteLLM", port, process.pid), key)


def _parameters(conversation: Conversation, targets: Targets) -> dict[str, str]:
    family = conversation.family
    return {
        "model": f"{PREFIXES[family.name]}/{conversation.model}",
        "api_base": conversation.provider(targets.provider)["baseUrl"],
        "api_key": "none",
    }


def _model_request(conversation: Conversation, targets: Targets) -> tuple[Target, Load]:
    peer = litellm(targets)
    load = post(targets, peer.target, conversation.path, conversation.body, "word ", header=peer.header)
    return peer.target, load


def _tool_call(targets: Targets) -> tuple[Target, Load]:
    peer = litellm(targets)
    body = {"server_id": peer.server_id(), "name": "echo", "arguments": {"text": TEXT}}
    return peer.target, post(targets, peer.target, f"{TOOLS_PATH}/call", body, "aaaa", header=peer.header)


def _function(targets: Targets, connections: int, window: Window) -> Outcome:
    """Calls of a function by FastMCP. Raises Unmeasurable."""
    python = venv("fastmcp", "fastmcp", "uvloop") / "python"
    program = targets.stage.folder / "fastmcp_calls.py"
    program.write_text(FASTMCP)
    options = {"tasks": connections, "benchmarks": str(HERE.parent)}
    return program_load(str(program), lambda *_: options, itself=True, python=python)(targets, connections, window)


PEERS: Final[dict[str, Door]] = {
    "litellm-tool": Door("LiteLLM, `POST /mcp-rest/tools/call`", HttpLoad(_tool_call)),
    **{
        f"litellm-{each.model}": Door(
            f"LiteLLM, `{each.path}`, {'streamed' if each.stream else 'whole'}",
            HttpLoad(partial(_model_request, each)),
        )
        for each in ASKED
    },
    "fastmcp-function": Door("FastMCP, `Client.call_tool` in process, a function of the program", _function),
}
"""Doors of peers by name."""
