"""Offers of the conformance subject without questions: content, lists, schemas, resources, prompts.

Part of `conformance_subject`. Names and words are those that the scenarios of the official suite look for.
"""

from __future__ import annotations

import asyncio
import base64
import json
from typing import Annotated, Any, Final, Literal, cast

import mcp_types as types
from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.tools.base import Tool
from mcp.server.streamable_http import EventCallback, EventMessage, EventStore
from pydantic import Field

PIXEL: Final = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg=="
SILENCE: Final = "UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAEAfAAABAAgAZGF0YQAAAAA="
RICH_SCHEMA: Final[dict[str, Any]] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {
        "address": {
            "$anchor": "addressDef",
            "type": "object",
            "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
        }
    },
    "properties": {
        "name": {"type": "string"},
        "address": {"$ref": "#/$defs/address"},
        "contactMethod": {"type": "string", "enum": ["phone", "email"]},
        "phone": {"type": "string"},
        "email": {"type": "string"},
    },
    "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
    "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
    "then": {"required": ["phone"]},
    "else": {"required": ["email"]},
    "additionalProperties": False,
}


class History(EventStore):
    """Events of streams, for clients that come back with `Last-Event-ID`."""

    def __init__(self) -> None:
        self._events: list[tuple[str, types.JSONRPCMessage | None]] = []

    async def store_event(self, stream_id: str, message: types.JSONRPCMessage | None) -> str:
        self._events.append((stream_id, message))
        return str(len(self._events))

    async def replay_events_after(self, last_event_id: str, send_callback: EventCallback) -> str | None:
        last = int(last_event_id)
        if not 0 < last <= len(self._events):
            return None
        stream = self._events[last - 1][0]
        for number, (owner, message) in enumerate(self._events[last:], last + 1):
            if owner == stream and message is not None:
                await send_callback(EventMessage(message, str(number)))
        return stream


server = MCPServer(
    "conformance-subject",
    version="1.0.0",
    instructions="For the conformance suite.",
    tools=[],
)


# Content


@server.tool(description="Plain text.")
def test_simple_text() -> str:
    return "This is a simple text response for testing."


@server.tool(description="An image.")
def test_image_content() -> list[types.ImageContent]:
    return [types.ImageContent(type="image", data=PIXEL, mime_type="image/png")]


@server.tool(description="A sound.")
def test_audio_content() -> list[types.AudioContent]:
    return [types.AudioContent(type="audio", data=SILENCE, mime_type="audio/wav")]


def embedded(uri: str, kind: str, text: str) -> types.EmbeddedResource:
    resource = types.TextResourceContents(uri=uri, mime_type=kind, text=text)
    return types.EmbeddedResource(type="resource", resource=resource)


@server.tool(description="A resource inside the result.")
def test_embedded_resource() -> list[types.EmbeddedResource]:
    return [embedded("test://embedded-resource", "text/plain", "This is an embedded resource content.")]


@server.tool(description="Text, an image and a resource.")
def test_multiple_content_types() -> list[types.TextContent | types.ImageContent | types.EmbeddedResource]:
    return [
        types.TextContent(type="text", text="Multiple content types test:"),
        types.ImageContent(type="image", data=PIXEL, mime_type="image/png"),
        embedded("test://mixed-content-resource", "application/json", '{"test":"data","value":123}'),
    ]


@server.tool(description="Fails.")
def test_error_handling() -> types.CallToolResult:
    text = types.TextContent(type="text", text="This tool intentionally returns an error for testing")
    return types.CallToolResult(content=[text], is_error=True)


@server.tool(description="Greets.")
def greet(name: str = "you") -> str:
    return f"Hello, {name}!"


@server.tool(description="Computes, and is done at once.")
def slow_compute(seconds: float = 0, label: str = "") -> str:
    return f"{label} done"


@server.tool(description="Deletes nothing.")
def confirm_delete(filename: str = "", path: str = "") -> str:
    return f"{filename or path} is kept"


# On the way


@server.tool(description="Logs three times.")
async def test_tool_with_logging(ctx: Context) -> str:
    for line in ("Tool execution started", "Tool processing data", "Tool execution completed"):
        await ctx.info(line)
        await asyncio.sleep(0.05)
    return "logged"


@server.tool(description="Logs once, at most.")
async def test_logging_tool(ctx: Context) -> str:
    await ctx.info("a message")
    return "done"


@server.tool(description="Reports progress three times.")
async def test_tool_with_progress(ctx: Context) -> str:
    for done in (0, 50, 100):
        await ctx.report_progress(done, 100, f"Completed step {done} of 100")
        await asyncio.sleep(0.05)
    return "done"


@server.tool(description="Ends its stream before its answer.")
async def test_reconnection(ctx: Context) -> str:
    await asyncio.sleep(0.1)  # the stream's first event goes out before its end
    await ctx.close_sse_stream()
    await asyncio.sleep(0.1)
    return "Reconnection test completed"


# Lists that change


@server.tool(description="Says that the tools have changed; they have not.")
async def test_trigger_tool_change(ctx: Context) -> str:
    await ctx.notify_tools_changed()
    return "announced"


@server.tool(description="Says that the prompts have changed; they have not.")
async def test_trigger_prompt_change(ctx: Context) -> str:
    await ctx.notify_prompts_changed()
    return "announced"


# Schemas


@server.tool(name="test_x_mcp_header", description="Repeats a parameter that travels in a header too.")
def repeat(
    region: Annotated[str, Field(json_schema_extra={"x-mcp-header": "Region"})],
    priority: Annotated[int, Field(json_schema_extra={"x-mcp-header": "Priority"})] = 1,
) -> str:
    return f"{region} {priority}"


def json_schema_2020_12_tool() -> str:
    return "ok"


rich = Tool.from_function(json_schema_2020_12_tool, description="Tool with JSON Schema 2020-12 features")
rich.parameters = RICH_SCHEMA
server._tool_manager._tools[rich.name] = rich


# Resources


@server.resource("test://static-text", description="Text.", mime_type="text/plain")
def static_text() -> str:
    return "This is the content of the static text resource."


@server.resource("test://static-binary", description="An image.", mime_type="image/png")
def static_binary() -> bytes:
    return base64.b64decode(PIXEL)


@server.resource("test://watched-resource", description="May change.", mime_type="text/plain")
def watched() -> str:
    return "Watched resource content"


@server.resource("test://template/{id}/data", description="By id.", mime_type="application/json")
def by_id(id: str) -> str:  # noqa: A002 - the suite's word
    return json.dumps({"id": id, "templateTest": True, "data": f"Data for ID: {id}"})


# Prompts


def prompt_message(content: Any, role: Literal["user", "assistant"] = "user") -> types.PromptMessage:
    return types.PromptMessage(role=role, content=content)


def text(words: str) -> types.TextContent:
    return types.TextContent(type="text", text=words)


@server.prompt(description="No arguments.")
def test_simple_prompt() -> str:
    return "This is a simple prompt for testing."


@server.prompt(description="Two arguments.")
def test_prompt_with_arguments(arg1: str, arg2: str) -> str:
    return f"Prompt with arguments: arg1='{arg1}', arg2='{arg2}'"


@server.prompt(description="A resource in the prompt.")
def test_prompt_with_embedded_resource(resourceUri: str) -> Any:  # noqa: N803 - the suite's word
    return [
        {"role": "user", "content": embedded(resourceUri, "text/plain", "Embedded resource content for testing.")},
        {"role": "user", "content": text("Please process the embedded resource above.")},
    ]


@server.prompt(description="An image in the prompt.")
def test_prompt_with_image() -> Any:
    image = types.ImageContent(type="image", data=PIXEL, mime_type="image/png")
    return [{"role": "user", "content": image}, {"role": "user", "content": text("Please analyze the image above.")}]


async def complete(ref: Any, argument: Any, context: Any) -> types.Completion:
    return types.Completion(values=[value for value in ("paris", "park", "party") if value.startswith(argument.value)])


cast("Any", server).completion()(complete)


async def accept(ctx: Any, params: Any) -> types.EmptyResult:
    return types.EmptyResult()


for method, params in (
    ("resources/subscribe", types.SubscribeRequestParams),
    ("resources/unsubscribe", types.UnsubscribeRequestParams),
    ("logging/setLevel", types.SetLevelRequestParams),
):
    server._lowlevel_server.add_request_handler(method, params, accept)
