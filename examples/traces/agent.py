"""An agent of two steps whose trace goes on through the gateway to the tool servers.

    python agent.py http://127.0.0.1:8080/mcp

It exports its spans as the environment says (OTEL_EXPORTER_OTLP_ENDPOINT, …_PROTOCOL); the MCP SDK puts
the context of its span into each request.
"""

from __future__ import annotations

import asyncio
import os
import sys

from mcp import Client
from opentelemetry import trace
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter


def exporter() -> SpanExporter:
    """Exporter of the protocol that the environment names."""
    if os.environ.get("OTEL_EXPORTER_OTLP_PROTOCOL") == "grpc":
        from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter as GrpcSpanExporter

        return GrpcSpanExporter()
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

    return OTLPSpanExporter()


async def play(url: str) -> None:
    """Look a rule up, then roll as it says."""
    tracer = trace.get_tracer("agent")
    async with Client(url) as client:
        with tracer.start_as_current_span("invoke_agent game-master") as span:
            span.set_attribute("gen_ai.operation.name", "invoke_agent")
            await client.call_tool("rules__search_rules", {"query": "storm"})
            rolled = await client.call_tool("dice__roll", {"expression": "2d6+1"})
            print(rolled.content[0])
            print(f"trace {span.get_span_context().trace_id:032x}")


if __name__ == "__main__":
    provider = TracerProvider(resource=Resource.create({"service.name": "agent"}))
    provider.add_span_processor(BatchSpanProcessor(exporter()))
    trace.set_tracer_provider(provider)
    asyncio.run(play(sys.argv[1]))
    provider.shutdown()
