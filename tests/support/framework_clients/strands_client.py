"""Agents of Strands over its models of OpenAI, Anthropic and Google, which ask for streams in both ways."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from client_tasks import ANTHROPIC_MODEL, GOOGLE_MODEL, OPENAI_MODEL, Job, converse_async, main
from strands import Agent, tool
from strands.models.anthropic import AnthropicModel
from strands.models.gemini import GeminiModel
from strands.models.openai import OpenAIModel
from strands.models.openai_responses import OpenAIResponsesModel


def _agent(model: Callable[[], Any]) -> Callable[[Job], Awaitable[str]]:
    async def run(job: Job) -> str:
        agent = Agent(model=model(), tools=[tool(each) for each in job.functions])

        async def ask(question: str) -> str:
            if not job.stream:
                return str(await agent.invoke_async(question)).strip()
            result: Any = None
            async for event in agent.stream_async(question):
                result = event.get("result", result)
            return str(result).strip()

        return await converse_async(ask)

    return run


if __name__ == "__main__":
    main(
        {
            "OpenAIModel": _agent(lambda: OpenAIModel(model_id=OPENAI_MODEL)),
            "OpenAIResponsesModel": _agent(lambda: OpenAIResponsesModel(model_id=OPENAI_MODEL)),
            "AnthropicModel": _agent(lambda: AnthropicModel(model_id=ANTHROPIC_MODEL, max_tokens=2048)),
            "GeminiModel": _agent(lambda: GeminiModel(model_id=GOOGLE_MODEL)),
        }
    )
