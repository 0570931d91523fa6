"""One task of three steps, run by a framework directly at a provider and through the gateway, and compared.

Directly the framework declares all tools; through the gateway it declares `store` alone, and the gateway adds
`demo__add`. The scripted model calls each alone, and both together in either order; then it is asked again.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from client_environments import VERSIONS
from fairlead_formats.scripted_turns import ScriptedCall, ScriptedTurn
from fairlead_llm.scripted_model import ScriptedModel
from familytalks import PROVIDERS
from frameworkclients import FrameworkClient, TaskOutcome
from llmworld import llm_world
from toolservers import serve_asgi

EQUAL: Final = "equal"
WAYS: Final = ("whole", "streamed")
MODELS: Final = ("gpt-5", "claude-sonnet-4-5", "gemini-2.5-flash")
"""Models that the programs name."""


@dataclass(frozen=True)
class FrameworkRow:
    """A client, and its names for the APIs of models."""

    title: str
    apis: Mapping[str, str]
    """Provider of the same API, by the framework's own word for it. The first is its default."""
    prefix: str = ""
    """Text that the client puts in front of its tools' names."""


ENDPOINTS: Final[Mapping[str, str]] = {
    "openai-chat": "`/v1/chat/completions`",
    "openai-responses": "`/v1/responses`",
    "anthropic": "`/v1/messages`",
    "gemini": "`/v1beta/models/…`",
}
"""The gateway's endpoints by provider of the same API, as the page writes them."""
_BROUGHT_ALONG: Final = ("openai==", "anthropic==", "google-genai==", "langchain-core==", "langgraph==", "zod@")
_EXTRAS: Final = re.compile(r"\[.*\]")
FAILS_ALONE: Final[Mapping[tuple[str, str], str]] = {
    (
        "semantic_kernel",
        "OpenAIResponsesAgent",
    ): "fails without the gateway, too: beside `previous_response_id` it sends outputs of earlier responses again"
}
"""Reasons why a framework cannot do the task directly, by its name and its word for the API."""
FRAMEWORKS: Final[Mapping[str, FrameworkRow]] = {
    "openai": FrameworkRow(
        "OpenAI's SDK",
        {
            "chat": "openai-chat",
            "responses": "openai-responses",
            "responses, previous_response_id": "openai-responses",
        },
    ),
    "anthropic": FrameworkRow(
        "Anthropic's SDK",
        {"messages": "anthropic", "messages, tool_runner": "anthropic", "messages, thread": "anthropic"},
    ),
    "google": FrameworkRow("Google's Gen AI SDK", {"generateContent": "gemini"}),
    "vercel": FrameworkRow(
        "Vercel AI SDK",
        {
            "openai()": "openai-responses",
            "openai.chat()": "openai-chat",
            "anthropic()": "anthropic",
            "google()": "gemini",
        },
    ),
    "openai_agents": FrameworkRow("OpenAI Agents SDK", {"responses": "openai-responses", "chat": "openai-chat"}),
    "langchain": FrameworkRow(
        "LangChain",
        {
            "ChatOpenAI": "openai-chat",
            "ChatOpenAI, use_responses_api": "openai-responses",
            "ChatAnthropic": "anthropic",
            "ChatGoogleGenerativeAI": "gemini",
        },
    ),
    "pydantic_ai": FrameworkRow(
        "Pydantic AI",
        {
            "openai:": "openai-responses",
            "openai-chat:": "openai-chat",
            "anthropic:": "anthropic",
            "google:": "gemini",
        },
    ),
    "litellm": FrameworkRow(
        "LiteLLM",
        {
            "openai/": "openai-chat",
            "openai/, responses": "openai-responses",
            "anthropic/": "anthropic",
            "gemini/": "gemini",
        },
    ),
    "instructor": FrameworkRow(
        "Instructor", {"openai/": "openai-chat", "anthropic/": "anthropic", "google/": "gemini"}
    ),
    "llama_index": FrameworkRow(
        "LlamaIndex",
        {
            "OpenAI": "openai-chat",
            "OpenAIResponses": "openai-responses",
            "Anthropic": "anthropic",
            "GoogleGenAI": "gemini",
        },
    ),
    "google_adk": FrameworkRow("Google ADK", {"Agent": "gemini"}),
    "semantic_kernel": FrameworkRow(
        "Semantic Kernel",
        {"ChatCompletionAgent": "openai-chat", "OpenAIResponsesAgent": "openai-responses"},
        prefix="house-",
    ),
    "strands": FrameworkRow(
        "Strands Agents",
        {
            "OpenAIModel": "openai-chat",
            "OpenAIResponsesModel": "openai-responses",
            "AnthropicModel": "anthropic",
            "GeminiModel": "gemini",
        },
    ),
}


def page_rows() -> list[str]:
    """Rows of the table on the page of clients that were run."""
    rows = []
    for name, framework in FRAMEWORKS.items():
        pins = [_EXTRAS.sub("", pin).rpartition("@" if "npm" in VERSIONS[name] else "==") for pin in _own_pins(name)]
        client = f"{framework.title} (" + ", ".join(f"{package} {version}" for package, _, version in pins) + ")"
        for api, provider in framework.apis.items():
            outcome = FAILS_ALONE.get((name, api), EQUAL)
            rows.append(f"| {client} | `{api}` | {ENDPOINTS[provider]} | {outcome} |")
            client = ""
    return rows


def _own_pins(name: str) -> list[str]:
    """Pins of an environment without the SDKs of providers that a framework brings along."""
    first, *others = (pin for each in VERSIONS[name].values() for pin in each)
    return [first, *(pin for pin in others if not pin.startswith(_BROUGHT_ALONG))]


def script(own: str, ours: str) -> tuple[ScriptedTurn, ...]:
    """Turns of the model, with the names under which it has the client's and the gateway's tool."""

    def add(a: int, b: int) -> ScriptedCall:
        return ScriptedCall(ours, {"a": a, "b": b})

    def store(city: str) -> ScriptedCall:
        return ScriptedCall(own, {"city": city})

    return (
        ScriptedTurn("", [add(2, 38)], thoughts=["Add first."]),
        ScriptedTurn("", [store("harbour"), add(1, 1)], thoughts=["Both now."]),
        ScriptedTurn("", [add(3, 4), store("quay")], thoughts=["Both again."]),
        ScriptedTurn("", [add(40, 2)]),
        ScriptedTurn("There are 42.", thoughts=["Done."]),
        ScriptedTurn("", [add(42, 1)], thoughts=["One more."]),
        ScriptedTurn("", [store("pier")]),
        ScriptedTurn("There are 43."),
    )


def forms(name: str) -> tuple[ScriptedTurn, ...]:
    """Turns of a model that has to call a form of its answer."""
    stocks = (("harbour", 40), ("quay", 2), ("pier", 0))
    return tuple(ScriptedTurn("", [ScriptedCall(name, {"city": city, "pieces": pieces})]) for city, pieces in stocks)


@dataclass(frozen=True)
class TaskRun:
    """Record of one task: what the client, the provider and the tool server saw."""

    outcome: TaskOutcome
    requests: int
    """Requests to the model."""
    added: Sequence[Mapping[str, object]]
    """Arguments of the gateway's calls of its tool."""


def _turns(framework: str, *, direct: bool, stream: bool) -> tuple[ScriptedTurn, ...]:
    if framework == "instructor":
        return forms("PartialStock" if stream else "Stock")
    prefix = FRAMEWORKS[framework].prefix
    return script(f"{prefix}store", f"{prefix if direct else ''}demo__add")


async def run_directly(client: FrameworkClient, framework: str, api: str, *, stream: bool) -> TaskRun:
    """Run the task at the API's provider. The client declares all tools."""
    model = ScriptedModel(*_turns(framework, direct=True, stream=stream))
    async with serve_asgi(model) as port:
        outcome = await client.run(api, f"http://127.0.0.1:{port}", ["store", "demo__add"], stream=stream)
    return TaskRun(outcome, len(model.requests), ())


async def run_through(
    client: FrameworkClient, framework: str, api: str, provider: str, folder: Path, *, stream: bool
) -> TaskRun:
    """Run the task through a gateway, at a provider of any family."""
    members = {**PROVIDERS[provider], "models": ["scripted", *MODELS]}
    turns = _turns(framework, direct=False, stream=stream)
    async with llm_world(folder, *turns, provider=members) as world:
        url = f"http://127.0.0.1:{world.gateway.port}"
        outcome = await client.run(api, url, ["store"], stream=stream)
        added = [call["arguments"] for call in world.called]
        return TaskRun(outcome, len(world.model.requests), added)


def difference(direct: TaskRun, through: TaskRun) -> str:
    """`EQUAL`, or what differs: first the final message, then calls and requests."""
    if through.outcome.error:
        return f"error: {through.outcome.error}"
    if through.outcome.text != direct.outcome.text:
        return f"final message {through.outcome.text!r} in place of {direct.outcome.text!r}"
    added = [f"demo__add {call['a']} {call['b']}" for call in through.added]
    ran = sorted([*through.outcome.ran, *added])
    if ran != sorted(direct.outcome.ran):
        return f"calls {ran} in place of {sorted(direct.outcome.ran)}"
    if through.requests != direct.requests:
        return f"{through.requests} requests in place of {direct.requests}"
    return EQUAL


async def differences(client: FrameworkClient, framework: str, folder: Path) -> dict[str, str]:
    """Differences by the cell `API, whole or streamed, provider`; `direct`: the framework fails without a gateway."""
    cells: dict[str, str] = {}
    for api in FRAMEWORKS[framework].apis:
        for way in WAYS:
            stream = way == "streamed"
            direct = await run_directly(client, framework, api, stream=stream)
            if direct.outcome.error:
                cells[f"{api}, {way}, direct"] = f"error: {direct.outcome.error}"
                continue
            for provider in PROVIDERS:
                through = await run_through(client, framework, api, provider, folder, stream=stream)
                cells[f"{api}, {way}, {provider}"] = difference(direct, through)
    return cells
