"""Anthropic's own client, with a loop of its user's and with that of its tool runner."""

from __future__ import annotations

from typing import Any

import anthropic
from client_tasks import ANTHROPIC_MODEL, MOST_ROUNDS, SCHEMAS, TASK, Job, description, main, run_tool


def messages(job: Job) -> str:
    """Whole answers, or streams that the client's accumulator reads."""
    client = anthropic.Anthropic()
    conversation: list[Any] = [{"role": "user", "content": TASK}]
    tools: list[Any] = [
        {"name": each.__name__, "description": description(each), "input_schema": SCHEMAS[each.__name__]}
        for each in job.functions
    ]
    for _ in range(MOST_ROUNDS):
        options: dict[str, Any] = {
            "model": ANTHROPIC_MODEL,
            "max_tokens": 2048,
            "messages": conversation,
            "tools": tools,
        }
        if job.stream:
            with client.messages.stream(**options) as stream:
                message: Any = stream.get_final_message()
        else:
            message = client.messages.create(**options)
        calls = [block for block in message.content if block.type == "tool_use"]
        if not calls:
            return "".join(block.text for block in message.content if block.type == "text")
        results = [
            {"type": "tool_result", "tool_use_id": call.id, "content": run_tool(call.name, call.input)}
            for call in calls
        ]
        conversation += [{"role": "assistant", "content": message.content}, {"role": "user", "content": results}]
    raise RuntimeError("the model calls tools without end")


def tool_runner(job: Job) -> str:
    """The client's own loop."""
    client = anthropic.Anthropic()
    runner: Any = client.beta.messages.tool_runner(
        model=ANTHROPIC_MODEL,
        max_tokens=2048,
        messages=[{"role": "user", "content": TASK}],
        tools=[anthropic.beta_tool(each) for each in job.functions],
        stream=job.stream,
    )
    message: Any = None
    if job.stream:
        for stream in runner:
            message = stream.get_final_message()
    else:
        message = runner.until_done()
    return "".join(block.text for block in message.content if block.type == "text")


if __name__ == "__main__":
    main({"messages": messages, "messages, tool_runner": tool_runner})
