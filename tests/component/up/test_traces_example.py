"""The example of docs/try/trace-example.md with a real OpenTelemetry Collector: one trace from an agent through the
gateway to the tool servers, and metrics and logs.
"""

from __future__ import annotations

import asyncio
import os
import re
import sys
from pathlib import Path

import pytest

from controlplane import REPOSITORY
from otelcollector import EXAMPLE, CollectedSpan, RunningCollector, collector
from upprocess import fairlead_up, until_listed
from waiting import until_async

PAGE = (REPOSITORY / "docs" / "try" / "trace-example.md").read_text()
pytestmark = pytest.mark.timeout(120)


async def play_agent(url: str, running: RunningCollector, protocol: str) -> str:
    """Run the agent by the page's command, with this test's addresses. Returns the id of its trace."""
    (script,) = re.findall(r"^OTEL_EXPORTER_OTLP_ENDPOINT=\S+ python (\S+) http\S+/mcp$", PAGE, re.MULTILINE)
    agent = await asyncio.create_subprocess_exec(
        sys.executable,
        REPOSITORY / script,
        url,
        env={**os.environ, **running.variables(protocol)},
        stdout=asyncio.subprocess.PIPE,
    )
    out, _ = await asyncio.wait_for(agent.communicate(), 60)
    assert agent.returncode == 0
    return out.decode().split()[-1]


def path_to(span: CollectedSpan, spans: list[CollectedSpan]) -> list[str]:
    """Services and kinds of the spans from the first span of a trace to this one."""
    by_id = {each.ident: each for each in spans}
    names = []
    at: CollectedSpan | None = span
    while at is not None:
        names.append(f"{at.service}:{at.kind}")
        at = by_id.get(at.parent)
    return names[::-1]


@pytest.mark.parametrize("protocol", ["http/protobuf", "grpc"])
async def test_a_trace_leads_from_an_agent_through_the_gateway_to_the_tool_servers(
    tmp_path: Path, protocol: str
) -> None:
    async with collector(tmp_path) as running:
        variables = {**running.variables(protocol), "FAIRLEAD_AUDIT": "off", "XDG_DATA_HOME": str(tmp_path)}
        async with fairlead_up(EXAMPLE / "mcp.json", "--verbose", cwd=tmp_path, env=variables) as up:
            await until_listed(up.url, "dice", "rules")
            trace = await play_agent(up.url, running, protocol)

            async def whole() -> bool:
                return "fairlead_otel_exported" in running.metrics() and any(running.logs().values())

            await until_async("metrics and logs", whole)
        spans = [span for span in running.spans() if span.trace == trace]
        (rolled,) = [span for span in spans if span.service == "fairlead-dice-roller"]
        (looked_up,) = [span for span in spans if span.service == "fairlead-rules-lookup"]
        assert (rolled.name, looked_up.name) == ("tools/call roll", "tools/call search_rules")
        for span in (rolled, looked_up):
            assert path_to(span, spans) == [
                "agent:1",
                "agent:3",
                "fairlead-gateway:2",
                "fairlead-gateway:3",
                f"{span.service}:2",
            ]
        durations = running.metrics()["mcp_server_operation_duration_seconds"]["histogram"]["dataPoints"]
        exemplars = [exemplar["traceId"] for point in durations for exemplar in point.get("exemplars", [])]
        assert trace in exemplars
        assert running.logs()["fairlead-gateway"]
