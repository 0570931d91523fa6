"""Agent of LangChain over langchain-google-genai, with one tool: a program that runs in a separate environment.

    python langchain_google_client.py whole|stream URL TEXT

The user says Hi, and the model's calls are answered with "mine". After the model has said TEXT, the calls and texts of
all its answers are printed as one line of JSON.
"""

from __future__ import annotations

import functools
import json
import operator
import sys
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langchain_core.tools import tool
from langchain_google_genai import ChatGoogleGenerativeAI

MOST_ANSWERS = 8


@tool  # type: ignore[untyped-decorator,unused-ignore] # that package is in an environment of its own
def theirs(q: int) -> str:
    """The caller's."""
    return f"mine {q}"


def talk(way: str, url: str, last: str) -> list[Any]:
    """All that the model said."""
    model = ChatGoogleGenerativeAI(model="scripted", base_url=url, api_key="none", max_retries=1).bind_tools([theirs])
    messages: list[BaseMessage] = [HumanMessage("Hi")]
    told: list[Any] = []
    for _ in range(MOST_ANSWERS):
        answer: Any = (
            functools.reduce(operator.add, model.stream(messages)) if way == "stream" else model.invoke(messages)
        )
        assert isinstance(answer, AIMessage)
        told.append({"text": answer.text, "calls": [call["name"] for call in answer.tool_calls]})
        messages += [answer, *(ToolMessage("mine", tool_call_id=str(call["id"])) for call in answer.tool_calls)]
        if last in str(answer.text):
            break
    return told


if __name__ == "__main__":
    sys.stdout.write(json.dumps(talk(*sys.argv[1:4])) + "\n")
