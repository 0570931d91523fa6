"""Token counts of a request include the tools that would be injected."""

from __future__ import annotations

from pathlib import Path

from anthropicworld import CLIENT_TOOL
from fairlead_formats.providers.anthropic.fake import AnthropicApi
from llmworld import ANTHROPIC, llm_world

PATH = "/v1/messages/count_tokens"


async def test_the_provider_counts_with_the_injected_tools(tmp_path: Path) -> None:
    async with llm_world(tmp_path, provider=ANTHROPIC) as world:
        answer = await world.messages("Hi", path=PATH, tools=[CLIENT_TOOL])
        without = await world.messages("Hi", path=PATH, tools=[CLIENT_TOOL], fairlead={"tools": "none"})
    request = world.model.requests[0]
    assert [tool["name"] for tool in request["tools"]] == ["theirs", "demo__add", "demo__fail"]
    counted = AnthropicApi().count_tokens(PATH, request)
    assert counted is not None
    assert answer.body == counted
    assert without.message["input_tokens"] < answer.message["input_tokens"]


async def test_a_provider_of_another_kind_gets_no_request(tmp_path: Path) -> None:
    async with llm_world(tmp_path) as world:
        short = await world.messages("Hi", path=PATH)
        long = await world.messages("Hi " * 1000, path=PATH, system="Be brief. " * 1000)
        without = await world.messages("Hi", path=PATH, fairlead={"tools": "none"})
    assert not world.model.requests
    assert short.headers["x-fairlead-estimated"] == "true"
    assert without.message["input_tokens"] + 100 < short.message["input_tokens"]
    assert 4000 < long.message["input_tokens"] - short.message["input_tokens"] < 6000


async def test_a_request_that_cannot_be_counted_is_refused_in_the_form_of_the_api(tmp_path: Path) -> None:
    async with llm_world(tmp_path, provider=ANTHROPIC) as world:
        unknown = await world.messages("Hi", path=PATH, model="nobody-has-it")
        refused = await world.messages({"role": "user", "content": []}, path=PATH)
        empty = await world.messages(path=PATH)
    assert (unknown.status, unknown.message["error"]["type"]) == (404, "not_found_error")
    assert (refused.status, refused.message["error"]["type"]) == (400, "invalid_request_error")
    assert (empty.status, empty.message["error"]["message"]) == (400, "messages: the request needs at least one entry")
