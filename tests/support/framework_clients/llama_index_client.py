"""Agents of LlamaIndex, over its models of OpenAI, Anthropic and Google."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from client_tasks import ANTHROPIC_MODEL, GOOGLE_MODEL, OPENAI_MODEL, Job, converse_async, main
from llama_index.core.agent.workflow import FunctionAgent
from llama_index.core.tools import FunctionTool
from llama_index.core.workflow import Context
from llama_index.llms.anthropic import Anthropic
from llama_index.llms.google_genai import GoogleGenAI
from llama_index.llms.openai import OpenAI, OpenAIResponses


def _agent(model: Callable[[], Any]) -> Callable[[Job], Awaitable[str]]:
    async def run(job: Job) -> str:
        tools = [FunctionTool.from_defaults(each) for each in job.functions]
        agent = FunctionAgent(tools=tools, llm=model(), streaming=job.stream)
        context = Context(agent)

        async def ask(question: str) -> str:
            running = agent.run(question, ctx=context)
            async for _ in running.stream_events():
                pass
            return str(await running)

        return await converse_async(ask)

    return run


if __name__ == "__main__":
    main(
        {
            "OpenAI": _agent(lambda: OpenAI(model=OPENAI_MODEL)),
            "OpenAIResponses": _agent(lambda: OpenAIResponses(model=OPENAI_MODEL)),
            "Anthropic": _agent(lambda: Anthropic(model=ANTHROPIC_MODEL)),
            "GoogleGenAI": _agent(lambda: GoogleGenAI(model=GOOGLE_MODEL)),
        }
    )
