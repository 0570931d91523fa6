"""Questions of the conformance subject to its client: in mid-call in the legacy era, by results in the modern one.

Part of `conformance_subject`.
"""

from __future__ import annotations

from typing import Any

import mcp_types as types
from mcp.server.mcpserver import Context
from mcp.shared.exceptions import MCPError
from pydantic import BaseModel, Field

from conformance_offers import server

Asking = types.InputRequiredResult


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
    responses = [given.get(name) for name in names]
    return None if any(response is None for response in responses) else responses


def offers(ctx: Context, feature: str) -> bool:
    capabilities = ctx.client_capabilities
    return capabilities is not None and getattr(capabilities, feature) is not None


def content_of(result: Any) -> dict[str, Any]:
    content = getattr(result, "content", None)
    return content if isinstance(content, dict) else {}


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


def titled(*pairs: tuple[str, str]) -> list[Any]:
    return [{"const": value, "title": title} for value, title in pairs]


class Choices(BaseModel):
    untitledSingle: str = Field(json_schema_extra={"enum": ["option1", "option2", "option3"]})  # noqa: N815 - the suite's word
    titledSingle: str = Field(  # noqa: N815 - the suite's word
        json_schema_extra={"oneOf": titled(("value1", "First"), ("value2", "Second"), ("value3", "Third"))}
    )
    legacyEnum: str = Field(  # noqa: N815 - the suite's word
        json_schema_extra={"enum": ["opt1", "opt2", "opt3"], "enumNames": ["One", "Two", "Three"]}
    )
    untitledMulti: list[str] = Field(  # noqa: N815 - the suite's word
        json_schema_extra={"items": {"type": "string", "enum": ["option1", "option2", "option3"]}}
    )
    titledMulti: list[str] = Field(  # noqa: N815 - the suite's word
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
        questions: Any = {
            "user_name": elicit("What is your name?", name="string"),
            "greeting": sample("Generate a greeting", 50),
            "client_roots": list_roots(),
        }
        return Asking(input_requests=questions, request_state="three things")
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
    questions: Any = {}
    if offers(ctx, "elicitation"):
        questions["user_name"] = elicit("What is your name?", name="string")
    if offers(ctx, "sampling"):
        questions["greeting"] = sample("Generate a greeting", 50)
    if offers(ctx, "roots"):
        questions["client_roots"] = list_roots()
    if not questions or ctx.input_responses:
        return "done"
    return Asking(input_requests=questions)


@server.tool(description="Needs sampling.")
async def test_missing_capability(ctx: Context) -> str:
    if not offers(ctx, "sampling"):
        raise MCPError(-32021, "This tool needs sampling", {"requiredCapabilities": {"sampling": {}}})
    return "done"


@server.prompt(description="Asks first.")
async def test_input_required_result_prompt(ctx: Context) -> Any:
    given = answers(ctx, "user_context")
    if given is None:
        question = elicit("What context should the prompt use?", context="string")
        return Asking(input_requests={"user_context": question})
    return f"The context is {content_of(given[0]).get('context')}."
