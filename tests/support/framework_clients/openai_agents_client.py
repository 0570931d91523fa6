"""OpenAI Agents SDK: its default, Responses, and its other API. Traces are off, as they go to OpenAI."""

from __future__ import annotations

import os

import agents
from client_tasks import OPENAI_MODEL, TASK, Job, main

os.environ["OPENAI_AGENTS_DISABLE_TRACING"] = "1"


async def _run(job: Job) -> str:
    agents.set_default_openai_key("no-key", use_for_tracing=False)
    agent = agents.Agent(name="clerk", model=OPENAI_MODEL, tools=[agents.function_tool(each) for each in job.functions])
    if not job.stream:
        return str((await agents.Runner.run(agent, TASK)).final_output)
    running = agents.Runner.run_streamed(agent, TASK)
    async for _ in running.stream_events():
        pass
    return str(running.final_output)


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
