"""Simulated model with OpenAI's chat API, for trying the endpoints offline and for tests.

For each question in a message it calls one offered tool, and it answers with the tools' results. It chooses tools by
comparing words: a tool fits a question if the tool's name has a word of the question; its description decides between
tools that fit.
"""

from __future__ import annotations

import asyncio
import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final
from zoneinfo import available_timezones

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from fairlead_formats.providers.openai_chat.errors import error_body
from fairlead_formats.providers.openai_chat.fake import ChatApi
from fairlead_formats.scripted_turns import ScriptedCall, ScriptedTurn
from fairlead_formats.wire.errors import LlmError
from fairlead_llm.scripted_model import scripted_response
from fairlead_llm.scripted_requests import read_chat_request
from fairlead_tools.validation.schema_draft import draft_error

_WORD: Final = re.compile(r"[A-Za-z0-9]+(?:-[A-Za-z0-9]+)*")
_SENTENCE: Final = re.compile(r"(?<=[.?!])\s+")
_NUMBER: Final = re.compile(r"-?\d+(?:\.\d+)?")
_COMMON_WORDS: Final = frozenset(
    (
        "a",
        "about",
        "an",
        "and",
        "any",
        "are",
        "at",
        "by",
        "can",
        "did",
        "do",
        "does",
        "for",
        "from",
        "give",
        "had",
        "has",
        "have",
        "how",
        "i",
        "in",
        "is",
        "it",
        "its",
        "left",
        "many",
        "me",
        "much",
        "my",
        "of",
        "on",
        "or",
        "our",
        "please",
        "say",
        "show",
        "tell",
        "that",
        "the",
        "there",
        "this",
        "to",
        "us",
        "was",
        "we",
        "were",
        "what",
        "when",
        "where",
        "which",
        "who",
        "will",
        "with",
        "you",
    )
)
_JSON: Final = "application/json"
_NONE: Final = "none"
_MAX_QUESTION: Final = 4000
"""Maximum number of characters of a message that are compared with tools."""
_MAX_RESULT: Final = 4000
"""Maximum number of characters of a result that an answer repeats."""
_NAME_WEIGHT: Final = 3
_MAX_SENTENCES: Final = 20
"""Maximum number of sentences that are separate questions; the rest of a message is one further question."""
_MAX_CALLS: Final = 4
"""Maximum number of calls for one message."""
_ZONE: Final = re.compile("time_?zone|tz")


class ScriptedAssistant:
    """The model as an ASGI application. It keeps no state of a request."""

    def __init__(self, *, strict: bool = False) -> None:
        """`strict`: whether to reject the requests that OpenAI's Chat Completions rejects."""
        self._strict_api = ChatApi(draft_error) if strict else None
        self._numbers = itertools.count(1)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        try:
            request = await read_chat_request(Request(scope, receive))
        except LlmError as error:
            await Response(error_body(error), error.status, media_type=_JSON)(scope, receive, send)
            return
        response = await asyncio.to_thread(self._respond, scope["path"], request)
        await response(scope, receive, send)

    def _respond(self, path: str, request: Mapping[str, Any]) -> Response:
        rejection = None if self._strict_api is None else self._strict_api.refusal(path, request, {})
        if rejection is not None:
            status, error = rejection
            return Response(error, status, media_type=_JSON)
        return scripted_response(turn_for(request), next(self._numbers), request)


def turn_for(request: Mapping[str, Any]) -> ScriptedTurn:
    """Answer of the model to a request of OpenAI's chat API."""
    messages: Sequence[Mapping[str, Any]] = request.get("messages") or ()
    results = list(itertools.takewhile(_is_result, reversed(messages)))
    if results:
        return ScriptedTurn("\n".join(_text(message)[:_MAX_RESULT] for message in reversed(results)))
    question = next((_text(message) for message in reversed(messages) if message.get("role") == "user"), "")
    question = question[:_MAX_QUESTION]
    tools = [tool["function"] for tool in request.get("tools") or () if tool.get("function") is not None]
    tools += request.get("functions") or ()
    calls = [] if _NONE in (request.get("tool_choice"), request.get("function_call")) else _calls(question, tools)
    if not calls:
        return ScriptedTurn(
            f"I am a scripted model. I call a tool only if its name has a word of your question. None of the "
            f"{len(tools)} tools in this request has such a name."
        )
    return ScriptedTurn("", calls)


def _calls(text: str, tools: Sequence[Mapping[str, Any]]) -> list[ScriptedCall]:
    """A call for each sentence that a tool fits; equal calls only once."""
    calls: list[ScriptedCall] = []
    for sentence in _SENTENCE.split(text, maxsplit=_MAX_SENTENCES):
        tool = _choose(sentence, tools)
        call = None if tool is None else ScriptedCall(tool["name"], dict(_arguments(sentence, tool)))
        if call is not None and call not in calls:
            calls.append(call)
    return calls[:_MAX_CALLS]


def _is_result(message: Mapping[str, Any]) -> bool:
    return message.get("role") in ("tool", "function")


def _text(message: Mapping[str, Any]) -> str:
    content = message.get("content")
    if isinstance(content, str):
        return content
    return " ".join(str(part.get("text", "")) for part in content or () if isinstance(part, Mapping))


def _words(text: str) -> set[str]:
    return {_singular(word) for word in _WORD.findall(text.replace("_", " ")) if word.lower() not in _COMMON_WORDS}


def _singular(word: str) -> str:
    return re.sub(r"(?<=\w\w[^s])s$", "", word.lower())


def _choose(question: str, tools: Sequence[Mapping[str, Any]]) -> Mapping[str, Any] | None:
    """The tool that shares the most words with the question, words of the name counting threefold. Of equal tools, the
    one with the fewest required arguments. None if no tool has a word of the question in its name.
    """
    words = _words(question)

    def rank(tool: Mapping[str, Any]) -> tuple[int, int, int, str]:
        name_matches = len(words & _words(tool["name"]))
        description_matches = len(words & _words(tool.get("description") or ""))
        required_count = len(_required_arguments(tool))
        return -_NAME_WEIGHT * name_matches - description_matches, -name_matches, required_count, tool["name"]

    matching_tools = [tool for tool in tools if words & _words(tool["name"])]
    return min(matching_tools, key=rank, default=None)


def _arguments(question: str, tool: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Values for the required arguments of a tool, taken from the question if it has words or numbers of the right
    type.
    """
    properties = (tool.get("parameters") or {}).get("properties")
    tool_words = _words(tool["name"])
    words = [
        word
        for word in _WORD.findall(question)
        if word.lower() not in _COMMON_WORDS and _singular(word) not in tool_words
    ]
    numbers = [*_NUMBER.findall(question)]
    for name in _required_arguments(tool):
        member = properties.get(name) if isinstance(properties, dict) else None
        schema = member if isinstance(member, dict) else {}
        yield name, _zone(words) if _ZONE.search(name.lower()) else _value(schema, words, numbers)


def _required_arguments(tool: Mapping[str, Any]) -> list[str]:
    """Names of a tool's required arguments."""
    names = (tool.get("parameters") or {}).get("required")
    return [name for name in names if isinstance(name, str)] if isinstance(names, list) else []


def _zone(words: list[str]) -> str:
    """The IANA time zone whose city is among the words; UTC if no city is."""
    text = f" {' '.join(words)} ".lower()
    zones = sorted(zone for zone in available_timezones() if "/" in zone)
    return next((zone for zone in zones if f" {zone.rpartition('/')[2].replace('_', ' ').lower()} " in text), "UTC")


def _value(member: Mapping[str, Any], words: list[str], numbers: list[str]) -> Any:
    """A value for one argument (`member`: its JSON schema). A number or word that is taken is removed from its list, so
    that the next argument gets another value.
    """
    choices = member.get("enum")
    if isinstance(choices, list) and choices:
        question_words = frozenset(words)
        return next((choice for choice in choices if isinstance(choice, str) and choice in question_words), choices[0])
    kind = member.get("type")
    if kind in ("integer", "number"):
        number = float(numbers.pop(0)) if numbers else 1.0
        return int(number) if kind == "integer" or number.is_integer() else number
    if kind == "boolean":
        return True
    if kind in ("array", "object"):
        return [] if kind == "array" else {}
    return words.pop(0) if words else "anything"
