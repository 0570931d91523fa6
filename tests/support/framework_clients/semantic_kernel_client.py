"""Agents of Semantic Kernel over OpenAI's chat and Responses. Its tools are called PLUGIN-FUNCTION."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from client_tasks import OPENAI_MODEL, Job, converse_async, description, main
from semantic_kernel.agents import ChatCompletionAgent, OpenAIResponsesAgent
from semantic_kernel.connectors.ai.open_ai import OpenAIChatCompletion
from semantic_kernel.functions import KernelPlugin, kernel_function


def _plugin(job: Job) -> KernelPlugin:
    functions = [kernel_function(each, name=each.__name__, description=description(each)) for each in job.functions]
    return KernelPlugin(name="house", functions=functions)


def _agent(agent: Callable[[Job], Any]) -> Callable[[Job], Awaitable[str]]:
    async def run(job: Job) -> str:
        made = agent(job)
        threads: list[Any] = [None]

        async def ask(question: str) -> str:
            if not job.stream:
                response = await made.get_response(messages=question, thread=threads[-1])
                threads.append(response.thread)
                return str(response)
            text = ""
            async for piece in made.invoke_stream(messages=question, thread=threads[-1]):
                text += str(piece.content)
                threads.append(piece.thread)
            return text

        return await converse_async(ask)

    return run


def _chat(job: Job) -> Any:
    service = OpenAIChatCompletion(ai_model_id=OPENAI_MODEL)
    return ChatCompletionAgent(service=service, name="clerk", plugins=[_plugin(job)])


def _responses(job: Job) -> Any:
    client = OpenAIResponsesAgent.create_client(ai_model_id=OPENAI_MODEL)
    return OpenAIResponsesAgent(client=client, ai_model_id=OPENAI_MODEL, name="clerk", plugins=[_plugin(job)])


if __name__ == "__main__":
    main({"ChatCompletionAgent": _agent(_chat), "OpenAIResponsesAgent": _agent(_responses)})
