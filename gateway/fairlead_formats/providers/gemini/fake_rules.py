"""Rules of Gemini's API for the contents and tools of a request, as far as a loop of tools can break them. Pure module.

Source: Google's guides to function calling (a response for each call, together and right behind), to thought signatures
(the first call of each step of the current turn has one) and to tools in combination.
"""

from __future__ import annotations

import base64
import binascii
import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

_STAND_IN: Final = "skip_thought_signature_validator"
_PREFIX: Final = b"signature "
_FUNCTIONS: Final = ("functionDeclarations", "function_declarations")


def signature(number: int) -> str:
    """Signature of the thoughts in an answer."""
    return base64.b64encode(_PREFIX + b"%04d" % number).decode()


def fault(request: Mapping[str, Any]) -> str | None:
    """Why the API refuses a request; None where it takes it."""
    try:
        return next(_faults(request), None)
    except (AttributeError, KeyError, TypeError) as error:
        return f"Invalid value: {error}"


def _faults(request: Mapping[str, Any]) -> Iterator[str]:
    if "fairlead" in request:
        yield 'Invalid JSON payload received. Unknown name "fairlead": Cannot find field.'
    yield from _tool_faults(request)
    contents: Sequence[Mapping[str, Any]] = request.get("contents", [])
    for index, content in enumerate(contents):
        if not content.get("parts"):
            yield f"contents[{index}].parts must not be empty."
    runs = [list(run) for _, run in itertools.groupby(contents, lambda content: content.get("role"))]
    for number, run in enumerate(runs[:-1]):
        if run[0].get("role") == "model":
            yield from _response_faults(number, run, runs[number + 1][0])
    yield from _signature_faults(contents)


def _tool_faults(request: Mapping[str, Any]) -> Iterator[str]:
    tools: Sequence[Mapping[str, Any]] = request.get("tools", [])
    with_functions = [tool for tool in tools if any(name in tool for name in _FUNCTIONS)]
    others = any(set(tool) - {*_FUNCTIONS} for tool in tools)
    config = request.get("toolConfig") or {}
    calling = config.get("functionCallingConfig") or {}
    if len(with_functions) > 1:
        yield "Multiple tools are supported only when they are all search tools."
    if with_functions and others and not config.get("includeServerSideToolInvocations"):
        yield "Please enable tool_config.include_server_side_tool_invocations to use Built-in tools with functions."
    if calling.get("allowedFunctionNames") and calling.get("mode") not in ("ANY", "VALIDATED"):
        yield "Function calling config is set with allowed_function_names, and its mode is neither ANY nor VALIDATED."
    if request.get("cachedContent") and (tools or config):
        yield "CachedContent can not be used with a request setting tools or tool_config."


def _response_faults(number: int, run: Sequence[Mapping[str, Any]], behind: Mapping[str, Any]) -> Iterator[str]:
    """Faults of the content behind a run of the model's."""
    called = [part["functionCall"] for content in run for part in _parts(content) if "functionCall" in part]
    answered = [part["functionResponse"] for part in _parts(behind) if "functionResponse" in part]
    if len(called) != len(answered):
        yield (
            "Please ensure that the number of function response parts is equal to the number of function call parts "
            f"of the function call turn: number {number}."
        )
    for call, response in zip(called, answered, strict=False):
        if response.get("id", call.get("id")) != call.get("id") or call.get("name") != response.get("name"):
            yield f"function response {response.get('name')} is for no call at its place: number {number}."


def _signature_faults(contents: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    begin = max((index for index, content in enumerate(contents) if _asks(content)), default=0)
    for index, content in enumerate(contents):
        calls = [part for part in _parts(content) if "functionCall" in part]
        signed = [part["thoughtSignature"] for part in calls if "thoughtSignature" in part]
        if index > begin and calls and "thoughtSignature" not in calls[0]:
            yield f"Function call is missing a thought_signature in functionCall parts: contents[{index}]."
        if not all(map(_genuine, signed)):
            yield f"Corrupted thought signature: contents[{index}]."


def _asks(content: Mapping[str, Any]) -> bool:
    """Whether the user says something there."""
    return content.get("role") != "model" and any("functionResponse" not in part for part in _parts(content))


def _genuine(text: str) -> bool:
    try:
        return text == _STAND_IN or base64.b64decode(text, validate=True).startswith(_PREFIX)
    except binascii.Error:
        return False


def _parts(content: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    return content.get("parts") or []
