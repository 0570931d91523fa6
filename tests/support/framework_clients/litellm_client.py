"""LiteLLM as a library, with a tool loop in the user's program, over its providers OpenAI, Anthropic and Google."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # else it fetches one over the network

import litellm
from client_tasks import (
    ANTHROPIC_MODEL,
    GOOGLE_MODEL,
    MOST_ROUNDS,
    OPENAI_MODEL,
    SCHEMAS,
    Job,
    converse,
    description,
    main,
    run_tool,
)


def _completion(model: str) -> Callable[[Job], str]:
    def run(job: Job) -> str:
        messages: list[Any] = []
        tools = [
            {
                "type": "function",
                "function": {
                    "name": each.__name__,
                    "description": description(each),
                    "parameters": SCHEMAS[each.__name__],
                },
            }
            for each in job.functions
        ]
        base = {"api_base": f"{job.url}/v1beta"} if model.startswith("gemini/") else {}

        def ask(question: str) -> str:
            messages.append({"role": "user", "content": question})
            for _ in range(MOST_ROUNDS):
                answer: Any = litellm.completion(model=model, messages=messages, tools=tools, stream=job.stream, **base)
                completion: Any = litellm.stream_chunk_builder([*answer], messages=messages) if job.stream else answer
                message = completion.choices[0].message
                messages.append(message)
                if not message.tool_calls:
                    return str(message.content)
                for call in message.tool_calls:
                    result = run_tool(call.function.name, call.function.arguments)
                    messages.append({"role": "tool", "tool_call_id": call.id, "content": result})
            raise RuntimeError("the model calls tools without end")

        return converse(ask)

    return run


def responses(job: Job) -> str:
    """`litellm.responses`, the output of each response in the next request."""
    given: list[Any] = []
    tools: list[Any] = [
        {
            "type": "function",
            "name": each.__name__,
            "description": description(each),
            "parameters": SCHEMAS[each.__name__],
        }
        for each in job.functions
    ]

    def ask(question: str) -> str:
        given.append({"role": "user", "content": question})
        for _ in range(MOST_ROUNDS):
            answer: Any = litellm.responses(
                model=f"openai/{OPENAI_MODEL}", input=[*given], tools=tools, stream=job.stream
            )
            if job.stream:
                answer = [event.response for event in answer if hasattr(event, "response")][-1]
            items = [item if isinstance(item, dict) else item.model_dump(exclude_none=True) for item in answer.output]
            given.extend(items)
            calls = [item for item in items if item["type"] == "function_call"]
            if not calls:
                contents = [part for item in items if item["type"] == "message" for part in item["content"]]
                return "".join(part["text"] for part in contents)
            for call in calls:
                output = run_tool(call["name"], call["arguments"])
                given.append({"type": "function_call_output", "call_id": call["call_id"], "output": output})
        raise RuntimeError("the model calls tools without end")

    return converse(ask)


if __name__ == "__main__":
    main(
        {
            "openai/": _completion(f"openai/{OPENAI_MODEL}"),
            "openai/, responses": responses,
            "anthropic/": _completion(f"anthropic/{ANTHROPIC_MODEL}"),
            "gemini/": _completion(f"gemini/{GOOGLE_MODEL}"),
        }
    )
