"""Agents of Pydantic AI, by the names of models that it takes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from client_tasks import ANTHROPIC_MODEL, GOOGLE_MODEL, OPENAI_MODEL, TASK, Job, main
from pydantic_ai import Agent


def _agent(model: str) -> Callable[[Job], Awaitable[str]]:
    async def run(job: Job) -> str:
        agent = Agent(model, tools=[*job.functions])
        if not job.stream:
            return str((await agent.run(TASK)).output)
        async with agent.run_stream(TASK) as running:
            return str(await running.get_output())

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
