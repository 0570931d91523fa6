"""An MCP server with everything that the official conformance suite asks of a server, written with the SDK.

    python tests/conformance/subject.py PORT

Both eras on http://127.0.0.1:PORT/mcp. What it offers is what the scenarios name; see `conformance list`.
"""

from __future__ import annotations

import asyncio
import base64
import json
import sys
from typing import Annotated, Any, Final, Literal

import mcp_types as types
import uvicorn
from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.tools.base import Tool
from mcp.server.streamable_http import EventCallback, EventMessage, EventStore
from mcp.shared.exceptions import MCPError
from pydantic import BaseModel, Field

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


def elicit(message: str, **properties: str) -> types.ElicitRequest:
    """A question to the user, for the result of a call."""
    schema = {
        "type": "object",
        "properties": {name: {"type": kind} for name, kind in properties.items()},
        "required": list(properties),
    }
    params = types.ElicitRequestFormParams(message=message, requested_schema=schema)
    return types.ElicitRequest(method="elicitation/create", params=params)


def sample(prompt: str, max_tokens: int) -> types.CreateMessageRequest:
    message = types.SamplingMessage(role="user", content=types.TextContent(type="text", text=prompt))
    params = types.CreateMessageRequestParams(messages=[message], max_tokens=max_tokens)
    return types.CreateMessageRequest(method="sampling/createMessage", params=params)


def list_roots() -> types.ListRootsRequest:
    return types.ListRootsRequest(method="roots/list")


def answers(ctx: Context, *names: str) -> list[Any] | None:
    """The client's responses of these names, or None unless all have come in the right shape."""
    given = ctx.input_responses or {}
    found = [given.get(name) for name in names]
    return None if any(one is None or isinstance(one, dict) and not one for one in found) else found


def offers(ctx: Context, feature: str) -> bool:
    capabilities = ctx.client_capabilities
    return capabilities is not None and getattr(capabilities, feature) is not None


def content_of(result: Any) -> dict[str, Any]:
    content = getattr(result, "content", None)
    return content if isinstance(content, dict) else {}


Asking = types.InputRequiredResult
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
    await ctx.close_sse_stream()
    await asyncio.sleep(0.1)
    return "Reconnection test completed"


# Questions in mid-call, legacy


@server.tool(description="Asks the client's model.")
async def test_sampling(prompt: str, ctx: Context) -> str:
    message = types.SamplingMessage(role="user", content=types.TextContent(type="text", text=prompt))
    result = await ctx.session.create_message(messages=[message], max_tokens=100)
    content = result.content
    return f"LLM response: {content.text if isinstance(content, types.TextContent) else content}"


class Response(BaseModel):
    response: str = Field(description="User's response")


@server.tool(description="Asks the user.")
async def test_elicitation(message: str, ctx: Context) -> str:
    result = await ctx.elicit(message, Response)
    content = result.data.model_dump_json() if result.action == "accept" else "{}"
    return f"User response: action={result.action}, content={content}"


class Defaults(BaseModel):
    name: str = Field(default="John Doe", description="Name")
    age: int = Field(default=30, description="Age")
    score: float = Field(default=95.5, description="Score")
    status: str = Field(default="active", json_schema_extra={"enum": ["active", "inactive", "pending"]})
    verified: bool = Field(default=True, description="Verified")


@server.tool(description="Asks with default values.")
async def test_elicitation_sep1034_defaults(ctx: Context) -> str:
    result = await ctx.elicit("Please check", Defaults)
    content = result.data.model_dump_json() if result.action == "accept" else "{}"
    return f"Elicitation completed: action={result.action}, content={content}"


def titled(*pairs: tuple[str, str]) -> list[dict[str, str]]:
    return [{"const": value, "title": title} for value, title in pairs]


class Choices(BaseModel):
    untitledSingle: str = Field(json_schema_extra={"enum": ["option1", "option2", "option3"]})  # noqa: N815
    titledSingle: str = Field(  # noqa: N815
        json_schema_extra={"oneOf": titled(("value1", "First"), ("value2", "Second"), ("value3", "Third"))}
    )
    legacyEnum: str = Field(  # noqa: N815
        json_schema_extra={"enum": ["opt1", "opt2", "opt3"], "enumNames": ["One", "Two", "Three"]}
    )
    untitledMulti: list[str] = Field(  # noqa: N815
        json_schema_extra={"items": {"type": "string", "enum": ["option1", "option2", "option3"]}}
    )
    titledMulti: list[str] = Field(  # noqa: N815
        json_schema_extra={"items": {"anyOf": titled(("value1", "First"), ("value2", "Second"), ("value3", "Third"))}}
    )


@server.tool(description="Asks for choices.")
async def test_elicitation_sep1330_enums(ctx: Context) -> str:
    result = await ctx.elicit("Please choose", Choices)
    content = result.data.model_dump_json() if result.action == "accept" else "{}"
    return f"Elicitation completed: action={result.action}, content={content}"


# Questions as results, modern


def hello(ctx: Context) -> str | Asking:
    given = answers(ctx, "user_name")
    name = content_of(given[0]).get("name") if given else None
    if not isinstance(name, str):
        return Asking(input_requests={"user_name": elicit("What is your name?", name="string")})
    return f"Hello, {name}!"


@server.tool(description="Asks for a name.")
async def test_input_required_result_elicitation(ctx: Context) -> str | Asking:
    return hello(ctx)


@server.tool(description="Asks, but no independent request goes out on the stream.")
async def test_streaming_elicitation(ctx: Context) -> str | Asking:
    return hello(ctx)


@server.tool(description="Asks the client's model.")
async def test_input_required_result_sampling(ctx: Context) -> str | Asking:
    given = answers(ctx, "capital_question")
    if given is None:
        return Asking(input_requests={"capital_question": sample("What is the capital of France?", 100)})
    return f"The model says: {given[0]}"


@server.tool(description="Asks for roots.")
async def test_input_required_result_list_roots(ctx: Context) -> str | Asking:
    given = answers(ctx, "client_roots")
    if given is None:
        return Asking(input_requests={"client_roots": list_roots()})
    return f"The roots are: {given[0]}"


@server.tool(description="Asks, with a state.")
async def test_input_required_result_request_state(ctx: Context) -> str | Asking:
    if answers(ctx, "confirm") is None or ctx.request_state != "confirming":
        return Asking(input_requests={"confirm": elicit("Please confirm", ok="boolean")}, request_state="confirming")
    return "state-ok"


@server.tool(description="Asks for three things.")
async def test_input_required_result_multiple_inputs(ctx: Context) -> str | Asking:
    given = answers(ctx, "user_name", "greeting", "client_roots")
    if given is None or ctx.request_state != "three things":
        asked: Any = {
            "user_name": elicit("What is your name?", name="string"),
            "greeting": sample("Generate a greeting", 50),
            "client_roots": list_roots(),
        }
        return Asking(input_requests=asked, request_state="three things")
    return f"All has come: {given}"


@server.tool(description="Asks twice.")
async def test_input_required_result_multi_round(ctx: Context) -> str | Asking:
    state = ctx.request_state
    if state == "second" and answers(ctx, "step2") is not None:
        return "Both steps are done"
    if state == "first" and answers(ctx, "step1") is not None:
        question = elicit("Step 2: What is your favorite color?", color="string")
        return Asking(input_requests={"step2": question}, request_state="second")
    return Asking(input_requests={"step1": elicit("Step 1: What is your name?", name="string")}, request_state="first")


@server.tool(description="Refuses a state that is not its own.")
async def test_input_required_result_tampered_state(ctx: Context) -> str | Asking:
    if ctx.request_state is None:
        return Asking(input_requests={"confirm": elicit("Please confirm", ok="boolean")}, request_state="sealed")
    return "state-ok"


@server.tool(description="Asks for what the client offers, and nothing else.")
async def test_input_required_result_capabilities(ctx: Context) -> str | Asking:
    asked: Any = {}
    if offers(ctx, "elicitation"):
        asked["user_name"] = elicit("What is your name?", name="string")
    if offers(ctx, "sampling"):
        asked["greeting"] = sample("Generate a greeting", 50)
    if offers(ctx, "roots"):
        asked["client_roots"] = list_roots()
    if not asked or ctx.input_responses:
        return "done"
    return Asking(input_requests=asked)


@server.tool(description="Needs sampling.")
async def test_missing_capability(ctx: Context) -> str:
    if not offers(ctx, "sampling"):
        raise MCPError(-32021, "This tool needs sampling", {"requiredCapabilities": {"sampling": {}}})
    return "done"


# Lists that change


@server.tool(description="Adds and removes a tool.")
async def test_trigger_tool_change(ctx: Context) -> str:
    names = {tool.name for tool in await server.list_tools()}
    if "test_extra_tool" in names:
        server.remove_tool("test_extra_tool")
    else:
        server.add_tool(lambda: "extra", name="test_extra_tool", description="Comes and goes.")
    await ctx.notify_tools_changed()
    return "changed"


@server.tool(description="Adds and removes a prompt.")
async def test_trigger_prompt_change(ctx: Context) -> str:
    names = {prompt.name for prompt in await server.list_prompts()}
    if "test_extra_prompt" in names:
        server.remove_prompt("test_extra_prompt")
    else:
        server.prompt(name="test_extra_prompt", description="Comes and goes.")(lambda: "extra")
    await ctx.notify_prompts_changed()
    return "changed"


# Schemas


@server.tool(description="Repeats a parameter that travels in a header too.")
def test_x_mcp_header(
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
def by_id(id: str) -> str:  # noqa: A002
    return json.dumps({"id": id, "templateTest": True, "data": f"Data for ID: {id}"})


# Prompts


def said(content: Any, role: Literal["user", "assistant"] = "user") -> types.PromptMessage:
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
def test_prompt_with_embedded_resource(resourceUri: str) -> Any:  # noqa: N803
    return [
        {"role": "user", "content": embedded(resourceUri, "text/plain", "Embedded resource content for testing.")},
        {"role": "user", "content": text("Please process the embedded resource above.")},
    ]


@server.prompt(description="An image in the prompt.")
def test_prompt_with_image() -> Any:
    image = types.ImageContent(type="image", data=PIXEL, mime_type="image/png")
    return [{"role": "user", "content": image}, {"role": "user", "content": text("Please analyze the image above.")}]


@server.prompt(description="Asks first.")
async def test_input_required_result_prompt(ctx: Context) -> Any:
    given = answers(ctx, "user_context")
    if given is None:
        question = elicit("What context should the prompt use?", context="string")
        return Asking(input_requests={"user_context": question})
    return f"The context is {content_of(given[0]).get('context')}."


@server.completion()
async def complete(ref: Any, argument: Any, context: Any) -> types.Completion:
    return types.Completion(values=[value for value in ("paris", "park", "party") if value.startswith(argument.value)])


async def accept(ctx: Any, params: Any) -> types.EmptyResult:
    return types.EmptyResult()


for method, params in (
    ("resources/subscribe", types.SubscribeRequestParams),
    ("resources/unsubscribe", types.UnsubscribeRequestParams),
    ("logging/setLevel", types.SetLevelRequestParams),
):
    server._lowlevel_server.add_request_handler(method, params, accept)


if __name__ == "__main__":
    app = server.streamable_http_app(event_store=History(), retry_interval=100)
    # httptools leaves white space at the end of header values, which the suite looks at
    uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[1]), http="h11", log_level="warning")
