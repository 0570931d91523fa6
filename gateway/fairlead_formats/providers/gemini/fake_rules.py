"""Requests that the scripted Gemini API rejects.

Pure module; the rules and their sources are in `request_rules`.
"""

from __future__ import annotations

import base64
import binascii
import itertools
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from fairlead_formats.providers.gemini.definition_rules import camel, definition_faults
from fairlead_formats.providers.gemini.request_rules import GEMINI_RULES
from fairlead_formats.providers.gemini.thinking import LEVELS, levels_of
from fairlead_formats.request_rules.rule import BrokenRule, SchemaCheck

_SKIP_VALIDATION: Final = "skip_thought_signature_validator"
"""Signature that the API accepts for calls without a signature of its own."""
_PREFIX: Final = b"signature "
_FUNCTIONS: Final = ("functionDeclarations", "function_declarations")
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_.:-]{0,127}")
_MAX_FUNCTIONS: Final = 512
_DATA_MEMBERS: Final = frozenset(
    {
        "text",
        "inlineData",
        "fileData",
        "functionCall",
        "functionResponse",
        "executableCode",
        "codeExecutionResult",
        "toolCall",
        "toolResponse",
    }
)
_MODELS_WITHOUT_SIGNATURES: Final = re.compile(r"gemini-[12]\b")

Content = Mapping[str, Any]


def signature(number: int) -> str:
    """Signature of the thoughts in an answer."""
    return base64.b64encode(_PREFIX + b"%04d" % number).decode()


def fault(request: Mapping[str, Any], check_schema: SchemaCheck, path: str = "") -> BrokenRule | None:
    """The first rule that a request breaks; None if it breaks none. The request's `path` names the model."""
    try:
        return next(_faults(request, check_schema, path), None)
    except (AttributeError, KeyError, TypeError) as error:
        return GEMINI_RULES.broken_rule("gemini-value", why=error)


def _faults(request: Mapping[str, Any], check_schema: SchemaCheck, path: str) -> Iterator[BrokenRule]:
    if "fairlead" in request:
        yield GEMINI_RULES.broken_rule("gemini-member", name="fairlead")
    functions = list(_functions(request))
    yield from _tool_faults(request, [function.get("name") for *_, function in functions])
    for tool, index, function in functions:
        if not _NAME.fullmatch(str(function.get("name", ""))):
            yield GEMINI_RULES.broken_rule("gemini-function-name", tool=tool, index=index)
        yield from definition_faults(function, check_schema, tool, index)
    yield from _thinking_faults(request.get("generationConfig") or {}, path)
    yield from _content_faults(
        request.get("contents", []), needs_signatures=_MODELS_WITHOUT_SIGNATURES.search(path) is None
    )


def _thinking_faults(config: Mapping[str, Any], path: str) -> Iterator[BrokenRule]:
    thinking = config.get("thinkingConfig") or {}
    level = thinking.get("thinkingLevel")
    if level is None:
        return
    if thinking.get("thinkingBudget") is not None:
        yield GEMINI_RULES.broken_rule("gemini-thinking-both")
    if str(level).upper() not in (levels_of(path) if "gemini-" in path else LEVELS):
        yield GEMINI_RULES.broken_rule("gemini-thinking-level", level=level)


def _functions(request: Mapping[str, Any]) -> Iterator[tuple[int, int, Mapping[str, Any]]]:
    """Declared functions, each after two indices: of its element in `tools`, and of the function in that element."""
    for number, tool in enumerate(request.get("tools") or ()):
        for name in _FUNCTIONS:
            for index, function in enumerate(tool.get(name) or ()):
                yield number, index, {camel(member): value for member, value in function.items()}


def _tool_faults(request: Mapping[str, Any], names: Sequence[object]) -> Iterator[BrokenRule]:
    tools: Sequence[Mapping[str, Any]] = request.get("tools") or []
    function_tools = [tool for tool in tools if any(name in tool for name in _FUNCTIONS)]
    has_other_tools = any(set(tool) - {*_FUNCTIONS} for tool in tools)
    config = request.get("toolConfig") or {}
    calling_config = config.get("functionCallingConfig") or {}
    if len(function_tools) > 1:
        yield GEMINI_RULES.broken_rule("gemini-functions-once")
    if function_tools and has_other_tools and not config.get("includeServerSideToolInvocations"):
        yield GEMINI_RULES.broken_rule("gemini-functions-combined")
    if calling_config.get("allowedFunctionNames") and calling_config.get("mode") not in ("ANY", "VALIDATED"):
        yield GEMINI_RULES.broken_rule("gemini-allowed-mode")
    for name in calling_config.get("allowedFunctionNames") or ():
        if name not in names:
            yield GEMINI_RULES.broken_rule("gemini-allowed-names", name=name)
    if request.get("cachedContent") and (tools or config):
        yield GEMINI_RULES.broken_rule("gemini-cached")
    if len(names) > _MAX_FUNCTIONS:
        yield GEMINI_RULES.broken_rule("gemini-function-count", count=len(names))
    for name, count in Counter(names).items():
        if count > 1:
            yield GEMINI_RULES.broken_rule("gemini-function-names-unique", name=name)


def _content_faults(contents: Sequence[Content], *, needs_signatures: bool) -> Iterator[BrokenRule]:
    if not contents:
        yield GEMINI_RULES.broken_rule("gemini-contents")
        return
    for number, content in enumerate(contents):
        if content.get("role", "user") not in ("user", "model"):
            yield GEMINI_RULES.broken_rule("gemini-role")
        if not content.get("parts"):
            yield GEMINI_RULES.broken_rule("gemini-parts", content=number)
        for index, part in enumerate(_parts(content)):
            if not any(camel(member) in _DATA_MEMBERS for member in part):
                yield GEMINI_RULES.broken_rule("gemini-part-data", content=number, index=index)
    if contents[-1].get("role") == "model":
        yield GEMINI_RULES.broken_rule("gemini-last-role")
    yield from _turn_faults(contents)
    yield from _signature_faults(contents, needs_signatures=needs_signatures)


def _turn_faults(contents: Sequence[Content]) -> Iterator[BrokenRule]:
    """Faults in the order of calls and responses; contents in a row of one role count as one."""
    runs = [list(run) for _, run in itertools.groupby(contents, lambda content: content.get("role"))]
    calls: list[Mapping[str, Any]] = []
    for number, run in enumerate(runs):
        parts = [part for content in run for part in _parts(content)]
        if run[0].get("role") == "model":
            calls = [part["functionCall"] for part in parts if "functionCall" in part]
            if calls and number == 0:
                yield GEMINI_RULES.broken_rule("gemini-call-order")
            continue
        responses = [part["functionResponse"] for part in _parts(run[0]) if "functionResponse" in part]
        if responses and not calls:
            yield GEMINI_RULES.broken_rule("gemini-response-order")
        elif len(calls) != len(responses):
            yield GEMINI_RULES.broken_rule("gemini-response-count", number=number)
        for call, response in zip(calls, responses, strict=False):
            if response.get("id", call.get("id")) != call.get("id") or call.get("name") != response.get("name"):
                yield GEMINI_RULES.broken_rule("gemini-response-of-call", name=response.get("name"), number=number)
        calls = []


def _signature_faults(contents: Sequence[Content], *, needs_signatures: bool) -> Iterator[BrokenRule]:
    turn_start = max((index for index, content in enumerate(contents) if _is_user_message(content)), default=0)
    for index, content in enumerate(contents):
        calls = [part for part in _parts(content) if "functionCall" in part]
        call_signatures = [part["thoughtSignature"] for part in calls if "thoughtSignature" in part]
        if needs_signatures and index > turn_start and calls and "thoughtSignature" not in calls[0]:
            yield GEMINI_RULES.broken_rule("gemini-missing-signature", content=index)
        if not all(map(_is_valid_signature, call_signatures)):
            yield GEMINI_RULES.broken_rule("gemini-signature", content=index)


def _is_user_message(content: Content) -> bool:
    """Whether a content has a part by the user, in contrast to contents that only have responses of functions."""
    return content.get("role") != "model" and any("functionResponse" not in part for part in _parts(content))


def _is_valid_signature(text: str) -> bool:
    try:
        return text == _SKIP_VALIDATION or base64.b64decode(text, validate=True).startswith(_PREFIX)
    except binascii.Error:
        return False


def _parts(content: Content) -> Sequence[Mapping[str, Any]]:
    """The parts of a content, with camel-case names of members. Clients also write these names in snake case."""
    return [{camel(name): value for name, value in part.items()} for part in content.get("parts") or []]
