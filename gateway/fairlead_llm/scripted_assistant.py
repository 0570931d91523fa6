"""A model without a provider, behind OpenAI's chat API: it calls the offered tool that a question is about, and answers
with the tool's result. For trying the endpoints offline, and for tests.

It knows words and no language: a tool fits where its name, or else its description, has words of the question.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from starlette.requests import Request
from starlette.types import Receive, Scope, Send

from fairlead_llm.scripted import ScriptedCall, ScriptedTurn, scripted_response

_WORD: Final = re.compile(r"[A-Za-z0-9]+(?:-[A-Za-z0-9]+)*")
_NUMBER: Final = re.compile(r"-?\d+(?:\.\d+)?")
_COMMON: Final = frozenset(
    (
        "a", "about", "an", "and", "any", "are", "at", "by", "can", "did", "do", "does", "for", "from", "give", "had",
        "has", "have", "how", "i", "in", "is", "it", "its", "left", "many", "me", "much", "my", "of", "on", "or", "our",
        "please", "say", "show", "tell", "that", "the", "there", "this", "to", "us", "was", "we", "were", "what",
        "when", "where", "which", "who", "will", "with", "you",
    )
)  # fmt: skip
_LONGEST_RESULT: Final = 4000
"""Characters of a result that an answer repeats."""
_NAME_WEIGHT: Final = 3


class ScriptedAssistant:
    """The ASGI application. It keeps nothing of a request."""

    def __init__(self) -> None:
        self._numbers = itertools.count(1)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        asked = json.loads(await Request(scope, receive).body())
        await scripted_response(turn_for(asked), next(self._numbers), asked)(scope, receive, send)


def turn_for(asked: Mapping[str, Any]) -> ScriptedTurn:
    """Answer of the model to a request of OpenAI's chat API."""
    messages: Sequence[Mapping[str, Any]] = asked.get("messages") or ()
    results = list(itertools.takewhile(_is_result, reversed(messages)))
    if results:
        return ScriptedTurn("\n".join(_text(message)[:_LONGEST_RESULT] for message in reversed(results)))
    question = next((_text(message) for message in reversed(messages) if message.get("role") == "user"), "")
    tools = [tool["function"] for tool in asked.get("tools") or () if tool.get("type") == "function"]
    chosen = None if asked.get("tool_choice") == "none" else _chosen(question, tools)
    if chosen is None:
        return ScriptedTurn(
            f"I am a scripted model, and call a tool that has a word of your question in its name. None of the "
            f"{len(tools)} that I was offered has."
        )
    return ScriptedTurn("", [ScriptedCall(chosen["name"], dict(_arguments(question, chosen)))])


def _is_result(message: Mapping[str, Any]) -> bool:
    return message.get("role") == "tool"


def _text(message: Mapping[str, Any]) -> str:
    content = message.get("content")
    if isinstance(content, str):
        return content
    return " ".join(str(part.get("text", "")) for part in content or () if isinstance(part, Mapping))


def _words(text: str) -> set[str]:
    return {word.lower() for word in _WORD.findall(text.replace("_", " "))} - _COMMON


def _chosen(question: str, tools: Sequence[Mapping[str, Any]]) -> Mapping[str, Any] | None:
    """The tool with most words of the question, the first by name of several; None where none has any in its name."""
    asked = _words(question)

    def rank(tool: Mapping[str, Any]) -> tuple[int, int, str]:
        named = len(asked & _words(tool["name"]))
        told = len(asked & _words(tool.get("description") or ""))
        return -_NAME_WEIGHT * named - told, -named, tool["name"]

    fitting = [tool for tool in tools if asked & _words(tool["name"])]
    return min(fitting, key=rank, default=None)


def _arguments(question: str, tool: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Values for what the tool requires: of the question where it has any that fit."""
    schema = tool.get("parameters") or {}
    about = _words(tool["name"])
    words = [word for word in _WORD.findall(question) if word.lower() not in _COMMON | about]
    numbers = [*_NUMBER.findall(question)]
    for name in schema.get("required") or ():
        member = (schema.get("properties") or {}).get(name) or {}
        yield name, _value(member, words, numbers)


def _value(member: Mapping[str, Any], words: list[str], numbers: list[str]) -> Any:
    """A value for one member; takes the word or number that it uses."""
    choices = member.get("enum")
    if choices:
        return next((choice for choice in choices if choice in words), choices[0])
    kind = member.get("type")
    if kind in ("integer", "number"):
        number = float(numbers.pop(0)) if numbers else 1.0
        return int(number) if kind == "integer" or number.is_integer() else number
    if kind == "boolean":
        return True
    if kind in ("array", "object"):
        return [] if kind == "array" else {}
    return words.pop(0) if words else "anything"
