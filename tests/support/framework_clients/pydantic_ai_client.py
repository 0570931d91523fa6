"""Agents of Pydantic AI, by the names of models that it takes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from client_tasks import ANTHROPIC_MODEL, GOOGLE_MODEL, OPENAI_MODEL, Job, converse_async, main
from pydantic_ai import Agent


def _agent(model: str) -> Callable[[Job], Awaitable[str]]:
    async def run(job: Job) -> str:
        agent = Agent(model, tools=[*job.functions])
        history: list[Any] = []

        async def ask(question: str) -> str:
            if not job.stream:
                result = await agent.run(question, message_history=[*history])
                history[:] = result.all_messages()
                return str(result.output)
            async with agent.run_stream(question, message_history=[*history]) as running:
                output = await running.get_output()
                history[:] = running.all_messages()
                return str(output)

        return await converse_async(ask)

    return run


if __name__ == "__main__":
    main(
        {
            "openai:": _agent(f"openai:{OPENAI_MODEL}"),
            "openai-chat:": _agent(f"openai-chat:{OPENAI_MODEL}"),
            "anthropic:": _agent(f"anthropic:{ANTHROPIC_MODEL}"),
            "google:": _agent(f"google:{GOOGLE_MODEL}"),
        }
    )
