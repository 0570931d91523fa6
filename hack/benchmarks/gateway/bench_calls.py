"""A call of an MCP tool against a call of a custom tool, through the same gateway.

The MCP tool is an echo in C behind streamable HTTP, which costs the gateway a hop and almost no waiting. The custom
tools echo in the gateway itself. The cost of a call is the gateway's processor time divided by the calls of the same
window. Ratios are taken within a round.
"""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

from gateway.gateways import VERSIONS, Target, start_gateway, start_upstream
from rig.harness import Report, Sample, Settings, Unmeasurable, interleaved, ratios
from rig.loadtools import Load, Outcome, run_load
from rig.processes import Stage, cores

ERA = "modern"
MCP_TOOL = f"{ERA}__echo"
CUSTOM = """
from fairlead_gateway import CustomTools, tool

tools = CustomTools()


async def _echo(arguments):
    return arguments["text"]


tools.register("custom_async_dict", "Echo.", _echo, input_schema={
    "type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]})


@tool
async def custom_async(text: str) -> str:
    return text


@tool
def custom_thread(text: str) -> str:
    return text
"""
TOOLS = {
    MCP_TOOL: "MCP, HTTP server",
    "custom_async_dict": "custom, async, own schema",
    "custom_async": "custom, async, derived schema",
    "custom_thread": "custom, in a thread",
}
"""Description of each tool, by name."""

Key = tuple[int, str]
"""(connections, tool)"""


def measure(stage: Stage, settings: Settings) -> dict[Key, dict[int, Outcome]]:
    """Outcomes by row and round."""
    hop, rest = cores()
    upstream = start_upstream(stage, "upstream", rest)
    file = Path(stage.folder) / "custom_tools.py"
    file.write_text(CUSTOM)
    gateway: Target = start_gateway(stage, upstream.port, hop, "--tools", file)
    seconds, warmup = (1.0, 0.3) if settings.quick else (2.0, 0.5)
    outcomes: dict[Key, dict[int, Outcome]] = defaultdict(dict)
    for connections in (1, 16):
        for number, tool in interleaved(list(TOOLS), settings.rounds):
            load = Load(gateway.port, "/mcp", tool, VERSIONS[ERA], connections, seconds, warmup)
            try:
                outcomes[connections, tool][number] = run_load(stage, load, gateway.pid, [upstream.pid], core=rest)
            except Unmeasurable as error:
                raise Unmeasurable(f"{tool}, {connections} connections: {error}") from error
    return outcomes


def report(outcomes: dict[Key, dict[int, Outcome]]) -> Report:
    """Rows with ratios to the MCP tool in the same round."""
    result = Report("calls")
    for (connections, tool), rounds in outcomes.items():
        mcp = outcomes[connections, MCP_TOOL]
        result.rows.append(
            {
                "tool": TOOLS[tool],
                "connections": connections,
                "calls/s": Sample.of(o.calls_per_second for o in rounds.values()),
                "p50 µs": Sample.of(o.p50 for o in rounds.values()),
                "p99 µs": Sample.of(o.p99 for o in rounds.values()),
                "CPU µs/call": Sample.of(o.cpu for o in rounds.values()),
                "foreign cores": Sample.of(o.foreign for o in rounds.values()),
                "MCP p50 / this": ratios({r: o.p50 for r, o in mcp.items()}, {r: o.p50 for r, o in rounds.items()}),
                "MCP CPU / this": ratios({r: o.cpu for r, o in mcp.items()}, {r: o.cpu for r, o in rounds.items()}),
            }
        )
    return result


def run(settings: Settings) -> Report:
    """Measure. Raises Unmeasurable if a process does not start or an answer is wrong."""
    with Stage() as stage:
        return report(measure(stage, settings))
