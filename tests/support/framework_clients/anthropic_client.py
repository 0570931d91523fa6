"""Anthropic's own client: with a tool loop in the user's program, and with the loop of the client's tool runner."""

from __future__ import annotations

from typing import Any

import anthropic
from client_tasks import ANTHROPIC_MODEL, MOST_ROUNDS, SCHEMAS, Job, converse, description, main, run_tool


def messages(job: Job) -> str:
    """Whole answers, or streams that the client's accumulator reads."""
    client = anthropic.Anthropic()
    conversation: list[Any] = []
    tools: list[Any] = [
        {"name": each.__name__, "description": description(each), "input_schema": SCHEMAS[each.__name__]}
        for each in job.functions
    ]

    def ask(question: str) -> str:
        conversation.append({"role": "user", "content": question})
        for _ in range(MOST_ROUNDS):
            options: dict[str, Any] = {"model": ANTHROPIC_MODEL, "max_tokens": 2048, "messages": conversation}
            if job.stream:
                with client.messages.stream(**options, tools=tools) as stream:
                    message: Any = stream.get_final_message()
            else:
                message = client.messages.create(**options, tools=tools)
            conversation.append({"role": "assistant", "content": message.content})
            calls = [block for block in message.content if block.type == "tool_use"]
            if not calls:
                return _text(message)
            results = [
                {"type": "tool_result", "tool_use_id": call.id, "content": run_tool(call.name, call.input)}
                for call in calls
            ]
            conversation.append({"role": "user", "content": results})
        raise RuntimeError("the model calls tools without end")

    return converse(ask)


def _last_message(runner: Any, *, stream: bool) -> Any:
    message: Any = None
    if not stream:
        return runner.until_done()
    for events in runner:
        message = events.get_final_message()
    return message


def _text(message: Any) -> str:
    return "".join(block.text for block in message.content if block.type == "text")


def tool_runner(job: Job) -> str:
    """The client's own loop, with a new runner for each question."""
    client = anthropic.Anthropic()
    conversation: list[Any] = []

    def ask(question: str) -> str:
        conversation.append({"role": "user", "content": question})
        runner = client.beta.messages.tool_runner(
            model=ANTHROPIC_MODEL,
            max_tokens=2048,
            messages=conversation,
            tools=[anthropic.beta_tool(each) for each in job.functions],
            stream=job.stream,
        )
        message = _last_message(runner, stream=job.stream)
        conversation.append({"role": "assistant", "content": message.content})
        return _text(message)

    return converse(ask)


def thread(job: Job) -> str:
    """The loop of `tool_runner`, with one thread for all questions."""
    client = anthropic.Anthropic()
    tools = [anthropic.beta_tool(each) for each in job.functions]
    made: Any = client.beta.messages.thread(model=ANTHROPIC_MODEL, max_tokens=2048, tools=tools)

    def ask(question: str) -> str:
        made.append({"role": "user", "content": question})
        return _text(_last_message(made.tool_runner(stream=job.stream), stream=job.stream))

    return converse(ask)


if __name__ == "__main__":
    main({"messages": messages, "messages, tool_runner": tool_runner, "messages, thread": thread})
