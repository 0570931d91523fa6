"""OpenAI's own client, with a tool loop in the user's program: Chat Completions, and Responses, which the client
continues by their output or by their id.
"""

from __future__ import annotations

from typing import Any

import openai
from client_tasks import MOST_ROUNDS, OPENAI_MODEL, SCHEMAS, Job, converse, description, main, run_tool


def chat(job: Job) -> str:
    """Whole answers, or streams that the client's accumulator reads."""
    client = openai.OpenAI()
    messages: list[Any] = []
    tools: list[Any] = [
        {
            "type": "function",
            "function": {"name": each.__name__, "description": description(each), "parameters": SCHEMAS[each.__name__]},
        }
        for each in job.functions
    ]

    def ask(question: str) -> str:
        messages.append({"role": "user", "content": question})
        for _ in range(MOST_ROUNDS):
            options: dict[str, Any] = {"model": OPENAI_MODEL, "messages": messages, "tools": tools}
            if job.stream:
                with client.chat.completions.stream(**options) as stream:
                    completion: Any = stream.get_final_completion()
            else:
                completion = client.chat.completions.create(**options)
            message = completion.choices[0].message
            messages.append(message)
            if not message.tool_calls:
                return str(message.content)
            for call in message.tool_calls:
                result = run_tool(call.function.name, call.function.arguments)
                messages.append({"role": "tool", "tool_call_id": call.id, "content": result})
        raise RuntimeError("the model calls tools without end")

    return converse(ask)


def _responses(job: Job, *, continues: bool) -> str:
    client = openai.OpenAI()
    given: list[Any] = []
    tools: list[Any] = [
        {
            "type": "function",
            "name": each.__name__,
            "description": description(each),
            "parameters": SCHEMAS[each.__name__],
            "strict": False,
        }
        for each in job.functions
    ]
    last: dict[str, Any] = {}

    def ask(question: str) -> str:
        given.append({"role": "user", "content": question})
        for _ in range(MOST_ROUNDS):
            options: dict[str, Any] = {"model": OPENAI_MODEL, "input": [*given], "tools": tools, **last}
            if job.stream:
                with client.responses.stream(**options) as stream:
                    response: Any = stream.get_final_response()
            else:
                response = client.responses.create(**options)
            if continues:
                given.clear()
                last["previous_response_id"] = response.id
            else:
                given.extend(response.output)
            calls = [item for item in response.output if item.type == "function_call"]
            if not calls:
                return str(response.output_text)
            for call in calls:
                output = run_tool(call.name, call.arguments)
                given.append({"type": "function_call_output", "call_id": call.call_id, "output": output})
        raise RuntimeError("the model calls tools without end")

    return converse(ask)


def responses(job: Job) -> str:
    """The output of each response is part of the next request."""
    return _responses(job, continues=False)


def responses_by_id(job: Job) -> str:
    """Each request names the response before it."""
    return _responses(job, continues=True)


if __name__ == "__main__":
    main({"chat": chat, "responses": responses, "responses, previous_response_id": responses_by_id})
