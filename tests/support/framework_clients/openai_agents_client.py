"""OpenAI Agents SDK: its default, Responses, and its other API. Traces are off, as they go to OpenAI."""

from __future__ import annotations

import os
from typing import Any

import agents
from client_tasks import OPENAI_MODEL, Job, converse_async, main

os.environ["OPENAI_AGENTS_DISABLE_TRACING"] = "1"


async def _run(job: Job) -> str:
    agents.set_default_openai_key("no-key", use_for_tracing=False)
    agent = agents.Agent(name="clerk", model=OPENAI_MODEL, tools=[agents.function_tool(each) for each in job.functions])
    conversation: list[Any] = []

    async def ask(question: str) -> str:
        conversation.append({"role": "user", "content": question})
        result: Any = None
        if job.stream:
            result = agents.Runner.run_streamed(agent, [*conversation])
            async for _ in result.stream_events():
                pass
        else:
            result = await agents.Runner.run(agent, [*conversation])
        conversation[:] = result.to_input_list()
        return str(result.final_output)

    return await converse_async(ask)


async def responses(job: Job) -> str:
    """The SDK's default."""
    agents.set_default_openai_api("responses")
    return await _run(job)


async def chat(job: Job) -> str:
    """Chat Completions."""
    agents.set_default_openai_api("chat_completions")
    return await _run(job)


if __name__ == "__main__":
    main({"responses": responses, "chat": chat})
